// PTX to cubin, by one exact ptxas.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/native/native_compiler.h"
#include "daemon/worker/native/program.h"

namespace kiln {

// Runs `ptxas -v --gpu-name=sm_<architecture> <options> kernel.ptx -o kernel.cubin` and reads what
// it says. ptxas is always called "ptxas": its name stands in the binary, and the fingerprint
// covers the bytes alone. Whoever changes what it adds to a request raises kPtxasCall
// (compile_key.cc).
class PtxasCompiler final : public NativeCompiler {
 public:
  // The error is whatever keeps it from running.
  static absl::StatusOr<std::unique_ptr<NativeCompiler>> Open(const std::string& path);

  std::string Version() const override { return version_; }
  std::vector<std::string> Programs() const override { return {program_.Path()}; }
  absl::StatusOr<nlohmann::json> Describe() override;
  WorkerReply Compile(const CompileRequest& request) override;

 private:
  PtxasCompiler(Program program, std::string version)
      : program_(std::move(program)), version_(std::move(version)) {}

  WorkerReply Assemble(const CompileRequest& request,
                       const std::vector<std::string>& arguments) const;

  const Program program_;
  const std::string version_;
};

}  // namespace kiln
