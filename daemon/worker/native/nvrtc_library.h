// NVIDIA's runtime compiler, opened from a file at run time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernel/kernel.h"
#include "storage/base/status.h"

namespace kiln {

// What a program is compiled with. The strings have no NUL bytes.
struct NvrtcInput {
  std::string source;
  std::string name;  // in messages and line tables
  std::vector<SourceHeader> headers;
  std::vector<std::string> arguments;
  std::vector<std::string> name_expressions;
};

struct NvrtcOutput {
  bool compiled = false;
  bool ran_out = false;  // of memory, or of its own inner means: nothing was decided
  std::string problem;   // NVRTC's word for why not
  std::string log;
  std::string ptx;
  std::string cubin;
  std::string ltoir;
  std::vector<std::string> lowered_names;  // of the name expressions, in their order
};

// Several versions may be open, each in a process of its own: they share symbols. Not thread-safe.
class NvrtcLibrary {
 public:
  // Opens the library and its built-ins, libnvrtc-builtins.so, that lie beside it.
  // FAILED_PRECONDITION where it is no such library.
  static absl::StatusOr<std::unique_ptr<NvrtcLibrary>> Open(const std::string& path);

  // "12.9": the library does not tell more.
  const std::string& version() const { return version_; }
  // Compute capabilities: 75, 80, ….
  absl::StatusOr<std::vector<int>> Architectures() const;

  // A source that does not compile is an output. The error is one of the library.
  absl::StatusOr<NvrtcOutput> Compile(const NvrtcInput& input) const;

 private:
  struct Functions;

  NvrtcLibrary(std::shared_ptr<const Functions> functions, std::string version)
      : functions_(std::move(functions)), version_(std::move(version)) {}

  const std::shared_ptr<const Functions> functions_;
  const std::string version_;
};

}  // namespace kiln
