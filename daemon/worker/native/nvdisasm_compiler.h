// Cubin to text, by one exact nvdisasm.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/native/native_compiler.h"
#include "daemon/worker/native/program.h"

namespace kiln {

// Runs `nvdisasm --print-code kernel.cubin`. The request's source is the cubin; nothing else of it
// counts. The answer has one stage, "sass".
class NvdisasmCompiler final : public NativeCompiler {
 public:
  static absl::StatusOr<std::unique_ptr<NativeCompiler>> Open(const std::string& path);

  std::string Version() const override { return version_; }
  std::vector<std::string> Programs() const override { return {program_.Path()}; }
  absl::StatusOr<nlohmann::json> Describe() override;
  absl::Status Warm() override { return absl::OkStatus(); }
  WorkerReply Compile(const CompileRequest& request) override;

 private:
  NvdisasmCompiler(Program program, std::string version)
      : program_(std::move(program)), version_(std::move(version)) {}

  WorkerReply Disassemble() const;

  const Program program_;
  const std::string version_;
};

}  // namespace kiln
