#include "daemon/worker/native/nvdisasm_compiler.h"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "daemon/process/spawn.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr char kCubinFile[] = "kernel.cubin";
constexpr char kSassFile[] = "kernel.sass";
constexpr char kErrorFile[] = "output";

WorkerReply DisassemblyFailure(const Program::Result& result) {
  WorkerReply reply;
  reply.failure.stage = "sass";
  reply.failure.message =
      fmt::format("nvdisasm ended with {}: {}", DescribeWaitStatus(result.wait_status),
                  result.output.substr(0, result.output.find('\n')));
  reply.failure.output = result.output;
  return reply;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NativeCompiler>> NvdisasmCompiler::Open(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(Program program, Program::Open(path, "nvdisasm"));
  KILN_ASSIGN_OR_RETURN(const Program::Result said, program.Run({"--version"}, kErrorFile));
  ::unlink(kErrorFile);
  std::string version = VersionIn(said.output);
  if (said.wait_status != 0 || version.empty()) {
    return FailedPrecondition("{} --version ended with {} and said no version", path,
                              DescribeWaitStatus(said.wait_status));
  }
  return std::unique_ptr<NativeCompiler>(
      new NvdisasmCompiler(std::move(program), std::move(version)));
}

absl::StatusOr<nlohmann::json> NvdisasmCompiler::Describe() {
  return nlohmann::json{{"name", "nvdisasm"}, {"version", version_}};
}

WorkerReply NvdisasmCompiler::Compile(const CompileRequest& request) {
  const absl::Status written = WriteNewFile(kCubinFile, request.source.text, FileTime::kNow);
  if (!written.ok()) return FailedReply("sass", OfThisMachine(written));
  WorkerReply reply = Disassemble();
  for (const char* file : {kCubinFile, kSassFile, kErrorFile}) ::unlink(file);
  return reply;
}

WorkerReply NvdisasmCompiler::Disassemble() const {
  const auto started = std::chrono::steady_clock::now();
  const auto result = program_.Run({"--print-code", kCubinFile}, kErrorFile, kSassFile);
  const auto took = std::chrono::steady_clock::now() - started;
  if (!result.ok()) return FailedReply("sass", OfThisMachine(result.status()));
  if (result->wait_status != 0) return DisassemblyFailure(*result);
  absl::StatusOr<std::string> sass = ReadRegularFile(kSassFile, limits::kBlobBytesMax);
  if (!sass.ok()) return FailedReply("sass", sass.status(), result->output);
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kCompiled;
  reply.metadata.name = kCubinFile;
  reply.assembler = "nvdisasm " + version_;
  reply.usage.peak_bytes = result->peak_bytes;
  reply.timings.push_back(
      {"sass",
       static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count())});
  reply.stages.push_back({"sass", *std::move(sass)});
  return reply;
}

}  // namespace kiln
