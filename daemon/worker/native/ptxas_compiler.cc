#include "daemon/worker/native/ptxas_compiler.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/kernel/ptx_options.h"
#include "daemon/process/spawn.h"
#include "daemon/worker/native/command_arguments.h"
#include "daemon/worker/native/kernel_description.h"
#include "daemon/worker/native/ptxas_report.h"
#include "storage/base/elf_file.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr char kPtxFile[] = "kernel.ptx";
constexpr char kCubinFile[] = "kernel.cubin";
constexpr char kLogFile[] = "output";

// The real architectures in its --help, without "sm_", each once.
std::vector<std::string> ArchitecturesIn(std::string_view help) {
  constexpr std::string_view kPrefix = "'sm_";
  std::set<std::pair<int, std::string>> found;  // by number
  for (size_t at = help.find(kPrefix); at != std::string_view::npos; at = help.find(kPrefix, at)) {
    at += kPrefix.size();
    std::string architecture(help.substr(at, help.find('\'', at) - at));
    if (const int number = std::atoi(architecture.c_str()); number > 0) {
      found.emplace(number, std::move(architecture));
    }
  }
  std::vector<std::string> sorted;
  for (const auto& [_, architecture] : found) sorted.push_back(architecture);
  return sorted;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NativeCompiler>> PtxasCompiler::Open(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(Program program, Program::Open(path, "ptxas"));
  KILN_ASSIGN_OR_RETURN(const Program::Result said, program.Run({"--version"}, kLogFile));
  ::unlink(kLogFile);
  std::string version = VersionIn(said.output);
  if (said.wait_status != 0 || version.empty()) {
    return FailedPrecondition("{} --version ended with {} and said no version: {}", path,
                              DescribeWaitStatus(said.wait_status), said.output.substr(0, 200));
  }
  return std::unique_ptr<NativeCompiler>(new PtxasCompiler(std::move(program), std::move(version)));
}

absl::StatusOr<Json> PtxasCompiler::Describe() {
  KILN_ASSIGN_OR_RETURN(const Program::Result help, program_.Run({"--help"}, kLogFile));
  ::unlink(kLogFile);
  return Json{{"name", "ptxas"},
              {"version", version_},
              {"assembler", "ptxas " + version_},
              {"hidden_pointers", 0},
              {"kinds", {"ptx"}},
              {"backends", Json::array({{{"backend", "cuda"},
                                         {"architectures", ArchitecturesIn(help.output)},
                                         {"stages", {"cubin"}},
                                         {"options", DescribePtxasOptions(help.output)}}})}};
}

WorkerReply PtxasCompiler::Compile(const CompileRequest& request) {
  const auto options = ArgumentsFor(PtxasOptions(), request.options);
  if (!options.ok()) return FailedReply("options", options.status());
  std::vector<std::string> arguments{"-v", "--gpu-name=sm_" + request.target.architecture};
  arguments.insert(arguments.end(), options->begin(), options->end());
  arguments.insert(arguments.end(), {kPtxFile, "-o", kCubinFile});
  const absl::Status written = OsFilesystem().WriteNew(kPtxFile, request.source.text, 0600);
  if (!written.ok()) return FailedReply("cubin", OfThisMachine(written));
  WorkerReply reply = Assemble(request, arguments);
  for (const char* file : {kPtxFile, kCubinFile, kLogFile}) ::unlink(file);
  return reply;
}

WorkerReply PtxasCompiler::Assemble(const CompileRequest& request,
                                    const std::vector<std::string>& arguments) const {
  const auto started = std::chrono::steady_clock::now();
  const auto result = program_.Run(arguments, kLogFile);
  if (!result.ok()) return FailedReply("cubin", OfThisMachine(result.status()));
  if (result->wait_status != 0) {
    WorkerReply reply;
    reply.usage.peak_bytes = result->peak_bytes;
    reply.failure = ReadPtxasFailure(result->output,
                                     fmt::format("ptxas ended with {} and said nothing of the PTX",
                                                 DescribeWaitStatus(result->wait_status)));
    NameArchitectureOf(request.source.text, reply.failure);
    return reply;
  }
  absl::StatusOr<std::string> cubin = OsFilesystem().Read(kCubinFile, limits::kBlobBytesMax);
  if (!cubin.ok()) return FailedReply("cubin", cubin.status(), result->output);
  // Where the disk is full it ends well all the same, and leaves what there was room for.
  if (!IsElf64(*cubin) || !IsWholeElf64(*cubin)) {
    return FailedReply("cubin",
                       Unavailable("ptxas ended well, but its output is cut off: is the disk full "
                                   "that holds the workers' directories?"),
                       result->output);
  }
  const uint64_t micros = MicrosSince(started);

  WorkerReply reply =
      DescribeKernel(request, request.source.text, result->output, WantedEntry(request.options));
  if (reply.outcome != WorkerReply::Outcome::kCompiled) return reply;
  reply.assembler = "ptxas " + version_;
  reply.usage.peak_bytes = result->peak_bytes;
  reply.timings.push_back({"cubin", micros});
  reply.stages.push_back({"cubin", *std::move(cubin)});
  return reply;
}

}  // namespace kiln
