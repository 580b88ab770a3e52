// CUDA text of emitted kernels, compiled for the host and run there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/graph/emit/emitted_kernel.h"
#include "tests/testing/graph/program_interpreter.h"
#include "tests/testing/temp_directory.h"

namespace kiln::graph {

// The text with a number in the names of the functions that it brings along, so that several
// kernels are one source.
std::string WithOwnFunctions(const EmittedKernel& kernel, size_t number);

// How a kernel with stages is launched: once, with barriers, or once for each.
enum class HostStages : uint8_t { kTogether, kEach };

class HostKernels {
 public:
  HostKernels() = default;
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;
  ~HostKernels();

  // With g++, as one library.
  absl::Status Build(const std::vector<EmittedKernel>& kernels);
  void Run(const EmittedKernel& kernel, const std::vector<int64_t>& symbols,
           std::vector<TestBuffer>& buffers, HostStages stages = HostStages::kTogether) const;

 private:
  const TempDirectory directory_;
  void* library_ = nullptr;
};

}  // namespace kiln::graph
