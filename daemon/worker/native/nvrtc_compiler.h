// CUDA C++ to PTX and cubin, or to LTO-IR, by one exact NVRTC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/native/native_compiler.h"
#include "daemon/worker/native/nvrtc_library.h"

namespace kiln {

// Compiles a program `kernel.cu` with
//   --gpu-architecture=sm_<architecture> --include-path=<each of the toolchain's> <options>
// and --ptxas-options=-v --no-cache where the release knows these, in the directory /. A source can
// include any file that the process may read, so it compiles in a jail only. A change to what it
// adds to a request is another toolchain: raise kNvrtcCall (toolchain_files.cc).
class NvrtcCompiler final : public NativeCompiler {
 public:
  // `includes`: directories with headers, part of the toolchain.
  static absl::StatusOr<std::unique_ptr<NativeCompiler>> Open(const std::string& path,
                                                              std::vector<std::string> includes);

  std::string Version() const override { return version_; }
  std::vector<std::string> Programs() const override { return {}; }
  std::vector<std::string> Reads() const override { return includes_; }
  bool NeedsJail() const override { return true; }
  bool NamesAllItOpens() const override { return true; }
  absl::StatusOr<nlohmann::json> Describe() override;
  WorkerReply Compile(const CompileRequest& request) override;

 private:
  NvrtcCompiler(std::unique_ptr<NvrtcLibrary> library, std::vector<std::string> includes)
      : library_(std::move(library)), includes_(std::move(includes)) {}

  absl::Status TryOut();
  bool Knows(const std::vector<std::string>& arguments) const;
  std::vector<std::string> Arguments(const std::string& architecture) const;

  const std::unique_ptr<NvrtcLibrary> library_;
  const std::vector<std::string> includes_;
  std::string version_;
  std::vector<std::string> always_;  // options that every compile gets
};

}  // namespace kiln
