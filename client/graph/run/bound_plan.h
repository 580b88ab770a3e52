// A plan on a device: its kernels loaded, its launches made from addresses and symbols.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/run/kernel_plan.h"
#include "client/graph/run/memory_layout.h"
#include "client/launch/kiln_launch.h"

namespace kiln::graph {

// Parameters of a kernel: buffers and symbols. CUDA has room for 512 pointers.
inline constexpr size_t kParametersMax = 512;

struct Execution {
  size_t first_step = 0;
  size_t steps = 0;  // 0: all
  // An address for each buffer of the layout; that of one in the workspace is not read.
  std::span<const uint64_t> buffers;
  std::span<const int64_t> symbols;
  uint64_t workspace = 0;
  uint64_t workspace_bytes = 0;
  void* stream = nullptr;
};

// Set and prepare on one thread. Execute and what only reads may then be called on any number of
// threads at once. Errors of the launch library keep their code and its words.
class BoundPlan {
 public:
  // `device` as kiln_launch_kernel_open takes it. The plan is not needed afterwards.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BoundPlan>> Make(const KernelPlan& plan,
                                                                       kiln_launch_runtime* runtime,
                                                                       int device);

  // What the daemon answered for a kernel, or any artifact. FAILED_PRECONDITION: its step is the
  // engine's.
  [[nodiscard]] absl::Status SetResponse(size_t kernel, std::string_view response);
  [[nodiscard]] absl::Status SetArtifact(size_t kernel, kiln_launch_artifact* artifact);
  // Loads every kernel. FAILED_PRECONDITION: one has not been set.
  [[nodiscard]] absl::Status Prepare();

  // Lives as long as this object. FAILED_PRECONDITION: it has not been set.
  [[nodiscard]] absl::StatusOr<kiln_launch_kernel*> KernelAt(size_t number) const;

  [[nodiscard]] absl::StatusOr<uint64_t> WorkspaceBytes(std::span<const int64_t> symbols) const;
  [[nodiscard]] absl::StatusOr<uint64_t> BufferBytes(size_t buffer,
                                                     std::span<const int64_t> symbols) const;

  // Puts the launches of steps on the stream, up to the first one that is the engine's. `next_step`
  // becomes that step, or the one after the last. Everything is checked before the first launch.
  // Allocates nothing. INVALID_ARGUMENT: symbols outside of their ranges; a buffer that is null,
  // misaligned, or written and overlapped by another; a workspace that is missing or too small;
  // more blocks than a grid has.
  [[nodiscard]] absl::Status Execute(const Execution& execution, size_t& next_step) const;

 private:
  struct CloseKernel {
    void operator()(kiln_launch_kernel* kernel) const { kiln_launch_kernel_close(kernel); }
  };
  struct BoundKernel {
    std::string entry;
    std::vector<int> buffers;  // of the layout, in the order of parameters
    std::vector<GridFactor> grid;
    uint32_t threads = 0;  // 0: as it was compiled
    std::unique_ptr<kiln_launch_kernel, CloseKernel> kernel;
  };
  struct BoundStep {
    bool is_engines = false;
    size_t first_kernel = 0;
    size_t end_kernel = 0;
  };

  BoundPlan(const KernelPlan& plan, MemoryLayout layout, kiln_launch_runtime* runtime, int device);
  absl::Status Keep(size_t kernel, kiln_launch_code code, kiln_launch_kernel* opened);
  absl::Status CheckIsOurs(size_t kernel) const;
  absl::Status CheckIsSet(size_t kernel) const;
  std::string_view NameOf(int buffer) const;
  absl::Status CheckBuffer(int buffer, const Execution& execution) const;
  absl::Status CheckOverlaps(int written, const Execution& execution) const;
  absl::Status GridAt(const BoundKernel& kernel, std::span<const int64_t> symbols,
                      uint32_t grid[3]) const;
  absl::Status CheckKernels(size_t first, size_t end, const Execution& execution) const;
  absl::Status CheckWorkspace(std::optional<uint64_t> bytes, const Execution& execution) const;
  absl::Status Launch(const BoundKernel& kernel, const uint64_t* offsets,
                      const Execution& execution) const;

  std::vector<Symbol> symbols_;
  std::vector<std::string> names_;  // of the layout's buffers
  MemoryLayout layout_;
  std::vector<BoundStep> steps_;
  std::vector<BoundKernel> kernels_;
  kiln_launch_runtime* const runtime_;
  const int device_;
};

}  // namespace kiln::graph
