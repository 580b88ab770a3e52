// OpenCL C to SPIR-V, by one exact clang with its llvm-spirv and spirv-val.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/native/native_compiler.h"
#include "daemon/worker/native/program.h"

namespace kiln {

// Runs, with the headers of the request at /headers,
//
//   clang -c -target spirv64 -x cl -emit-llvm -O2 -Xclang -disable-llvm-passes … <options>
//   kernel.cl -o kernel.bc llvm-spirv --spirv-max-version=<architecture> kernel.bc -o kernel.spv
//   spirv-val --target-env spv<architecture> kernel.spv
//
// A source can include any file that the process may read, so it compiles in a jail only, which has
// clang's own headers and the libraries of these programs. A change to what it adds to a request is
// another toolchain: raise kClangCall (toolchain_files.cc).
class ClangCompiler final : public NativeCompiler {
 public:
  // `path`: clang-15, beside which the others lie. `includes`: clang's own headers, one directory.
  static absl::StatusOr<std::unique_ptr<NativeCompiler>> Open(
      const std::string& path, const std::vector<std::string>& includes);

  std::string Version() const override { return version_; }
  std::vector<std::string> Programs() const override;
  std::vector<std::string> Reads() const override { return reads_; }
  bool NeedsJail() const override { return true; }
  bool NamesAllItOpens() const override { return true; }
  absl::StatusOr<nlohmann::json> Describe() override;
  WorkerReply Compile(const CompileRequest& request) override;

 private:
  struct Tools {
    Program clang;
    Program translator;
    Program validator;
  };

  ClangCompiler(Tools tools, std::string resources, std::vector<std::string> reads)
      : tools_(std::move(tools)), resources_(std::move(resources)), reads_(std::move(reads)) {}

  absl::Status TryOut();
  // One program after the other.
  WorkerReply Run(const CompileRequest& request, std::vector<std::string> options) const;
  std::vector<std::string> ClangArguments(const CompileRequest& request,
                                          std::vector<std::string> options) const;

  const Tools tools_;
  const std::string resources_;  // the directory that clang's headers lie in
  const std::vector<std::string> reads_;
  std::string version_;
};

}  // namespace kiln
