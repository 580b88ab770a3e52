#include "daemon/worker/native/clang_compiler.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/process/loaded_libraries.h"
#include "daemon/process/spawn.h"
#include "daemon/worker/native/clang_options.h"
#include "daemon/worker/native/clang_report.h"
#include "daemon/worker/native/command_arguments.h"
#include "daemon/worker/native/kernel_description.h"
#include "daemon/worker/native/spirv_module.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kSpvStage[] = "spv";
constexpr char kSpirvBackend[] = "spirv";
constexpr char kOpenClFile[] = "kernel.cl";
constexpr char kBitcodeFile[] = "kernel.bc";
constexpr char kModuleFile[] = "kernel.spv";
constexpr char kOverlayFile[] = "headers.json";
constexpr char kClangLogFile[] = "output";
// Where a source finds the headers of its request, which lie in the work directory under numbers:
// no compile makes directories.
constexpr std::string_view kHeaders = "/headers";
constexpr const char* kSpirvVersions[] = {"1.0", "1.1", "1.2", "1.3", "1.4"};
constexpr char kTrialKernel[] = "kernel void trial(global float* x) { x[get_global_id(0)] = 1; }";
constexpr size_t kWarningBytesMax = 16 * limits::kKiB;

// "15.0.6" of "Debian clang version 15.0.6 …".
std::string VersionBehind(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + word.size());
  return std::string(text.substr(0, text.find_first_not_of("0123456789.")));
}

// What the loader finds without its cache, by program.
absl::StatusOr<std::set<std::string>> LibrariesOfAll(const std::vector<std::string>& programs) {
  std::set<std::string> libraries;
  for (const std::string& program : programs) {
    KILN_ASSIGN_OR_RETURN(const std::vector<std::string> more, LibrariesOf(program));
    libraries.insert(more.begin(), more.end());
  }
  return libraries;
}

std::string DirectoriesOf(const std::set<std::string>& files) {
  std::set<std::string> directories;
  for (const std::string& file : files) directories.insert(fs::path(file).parent_path());
  return fmt::format("{}", fmt::join(directories, ":"));
}

// A name that leads out of the headers, or is none.
bool IsOutside(const std::string& name) {
  const fs::path path(name);
  return path.is_absolute() || path.filename().empty() ||
         std::any_of(path.begin(), path.end(), [](const fs::path& part) {
           return part == "." || part == ".." || part.empty();
         });
}

// The files of a compile, in the current directory.
class WorkFiles {
 public:
  ~WorkFiles() {
    for (const std::string& name : names_) ::unlink(name.c_str());
  }

  absl::Status Write(const std::string& name, std::string_view text) {
    names_.push_back(name);
    const absl::Status written = OsFilesystem().WriteNew(name, text, 0600);
    return written.ok() ? written : OfThisMachine(written);
  }

  absl::Status WriteHeaders(const std::vector<SourceHeader>& headers) {
    Json roots = Json::array();
    for (size_t i = 0; i < headers.size(); ++i) {
      const SourceHeader& header = headers[i];
      if (IsOutside(header.name)) {
        return InvalidArgument(
            "header '{}': the headers of OpenCL C have relative names without . and ..",
            header.name);
      }
      const std::string file = fmt::format("header-{}", i);
      KILN_RETURN_IF_ERROR(Write(file, header.text));
      roots.push_back({{"type", "file"},
                       {"name", fmt::format("{}/{}", kHeaders, header.name)},
                       {"external-contents", file}});
    }
    const Json overlay = {{"version", 0}, {"use-external-names", false}, {"roots", roots}};
    return Write(kOverlayFile, overlay.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  void Expect(const std::string& name) { names_.push_back(name); }

 private:
  std::vector<std::string> names_;
};

// Headers by the names that the request has for them.
std::string WithoutHeadersPlace(std::string log) {
  const std::string place = fmt::format("{}/", kHeaders);
  for (size_t at = 0; (at = log.find(place, at)) != std::string::npos;) log.erase(at, place.size());
  return log;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NativeCompiler>> ClangCompiler::Open(
    const std::string& path, const std::vector<std::string>& includes) {
  const fs::path place = fs::path(path).parent_path();
  const std::vector<std::string> paths = {path, place / "llvm-spirv-15", place / "spirv-val"};
  if (includes.size() != 1) return InvalidArgument("clang has one directory of headers");
  KILN_ASSIGN_OR_RETURN(const std::set<std::string> libraries, LibrariesOfAll(paths));
  const Program::Habits habits{.finds_files = true, .libraries = DirectoriesOf(libraries)};
  KILN_ASSIGN_OR_RETURN(Program clang, Program::Open(paths[0], "clang", habits));
  KILN_ASSIGN_OR_RETURN(Program translator, Program::Open(paths[1], "llvm-spirv", habits));
  KILN_ASSIGN_OR_RETURN(Program validator, Program::Open(paths[2], "spirv-val", habits));
  std::vector<std::string> reads(libraries.begin(), libraries.end());
  reads.push_back(includes[0]);
  std::unique_ptr<ClangCompiler> compiler(
      new ClangCompiler({std::move(clang), std::move(translator), std::move(validator)},
                        fs::path(includes[0]).parent_path(), std::move(reads)));
  KILN_RETURN_IF_ERROR(compiler->TryOut());
  return std::unique_ptr<NativeCompiler>(std::move(compiler));
}

absl::Status ClangCompiler::TryOut() {
  KILN_ASSIGN_OR_RETURN(const Program::Result said, tools_.clang.Run({"--version"}, kClangLogFile));
  ::unlink(kClangLogFile);
  version_ = VersionBehind(said.output, "clang version ");
  if (said.wait_status == 0 && !version_.empty()) return absl::OkStatus();
  return FailedPrecondition("{} --version ended with {} and said no version: {}",
                            tools_.clang.Path(), DescribeWaitStatus(said.wait_status),
                            said.output.substr(0, 200));
}

std::vector<std::string> ClangCompiler::Programs() const {
  return {tools_.clang.Path(), tools_.translator.Path(), tools_.validator.Path()};
}

absl::StatusOr<Json> ClangCompiler::Describe() {
  std::vector<std::string> architectures;
  for (const char* architecture : kSpirvVersions) {
    CompileRequest trial;
    trial.source.text = kTrialKernel;
    trial.target = {kSpirvBackend, architecture};
    const WorkerReply reply = Compile(trial);
    if (reply.outcome == WorkerReply::Outcome::kCompiled) architectures.emplace_back(architecture);
  }
  Json options;
  for (const CommandOption& option : ClangOptions()) {
    options[std::string(option.name)] = Declare(option);
  }
  options["cl-std"]["default"] = "CL2.0";
  return Json{{"name", "clang"},
              {"version", version_},
              {"assembler", "llvm-spirv " + version_},
              {"hidden_pointers", 0},
              {"kinds", {"opencl"}},
              {"backends", Json::array({{{"backend", kSpirvBackend},
                                         {"architectures", std::move(architectures)},
                                         {"stages", {kSpvStage}},
                                         {"options", std::move(options)}}})}};
}

WorkerReply ClangCompiler::Compile(const CompileRequest& request) {
  auto options = ArgumentsFor(ClangOptions(), request.options);
  if (!options.ok()) return FailedReply("options", options.status());
  std::erase_if(*options, [](const auto& each) { return each.starts_with("--entry="); });
  // clang's options for OpenCL have one dash.
  for (std::string& each : *options) {
    if (each.starts_with("--cl-")) each.erase(0, 1);
  }
  WorkFiles files;
  absl::Status written = files.Write(kOpenClFile, request.source.text);
  if (written.ok()) written = files.WriteHeaders(request.headers);
  if (!written.ok()) return FailedReply(kSpvStage, written);
  for (const char* made : {kBitcodeFile, kModuleFile, kClangLogFile}) files.Expect(made);
  return Run(request, *std::move(options));
}

std::vector<std::string> ClangCompiler::ClangArguments(const CompileRequest& request,
                                                       std::vector<std::string> options) const {
  std::vector<std::string> arguments = {"-c", "-target", "spirv64", "-x", "cl", "-emit-llvm"};
  if (!request.options.contains("cl-opt-disable")) arguments.emplace_back("-O2");
  arguments.insert(
      arguments.end(),
      {"-cl-std=CL2.0",
       // Drivers optimize, and LLVM's passes make instructions that SPIR-V lacks (freeze).
       "-Xclang", "-disable-llvm-passes",
       // Parameters keep their names.
       "-fno-discard-value-names",
       // Its own headers, those of the request, and no others.
       "-resource-dir=" + resources_, "-nostdlibinc", "-ivfsoverlay", kOverlayFile,
       fmt::format("-I{}", kHeaders),
       // When it is compiled decides nothing.
       "-Wno-builtin-macro-redefined", "-D__DATE__=\"redacted\"", "-D__TIME__=\"redacted\"",
       "-D__TIMESTAMP__=\"redacted\"",
       // It would write a crash's source elsewhere.
       "-fno-crash-diagnostics"});
  std::move(options.begin(), options.end(), std::back_inserter(arguments));
  arguments.insert(arguments.end(), {kOpenClFile, "-o", kBitcodeFile});
  return arguments;
}

WorkerReply ClangCompiler::Run(const CompileRequest& request,
                               std::vector<std::string> options) const {
  const auto started = std::chrono::steady_clock::now();
  uint64_t peak_bytes = 0;
  const auto failed = [&](CompileFailure failure) {
    WorkerReply reply;
    reply.usage.peak_bytes = peak_bytes;
    reply.failure = std::move(failure);
    return reply;
  };
  const auto otherwise = [](const char* program, const Program::Result& result) {
    return fmt::format("{} ended with {} and said nothing of the source", program,
                       DescribeWaitStatus(result.wait_status));
  };

  auto compiled = tools_.clang.Run(ClangArguments(request, std::move(options)), kClangLogFile);
  if (!compiled.ok()) return FailedReply(kSpvStage, OfThisMachine(compiled.status()));
  peak_bytes = compiled->peak_bytes;
  const std::string log = WithoutHeadersPlace(std::move(compiled->output));
  if (compiled->wait_status != 0) {
    return failed(ReadClangFailure(log, otherwise("clang", *compiled)));
  }
  const std::string& version = request.target.architecture;
  const auto translated = tools_.translator.Run(
      {"--spirv-max-version=" + version, kBitcodeFile, "-o", kModuleFile}, kClangLogFile);
  if (!translated.ok()) return FailedReply(kSpvStage, OfThisMachine(translated.status()));
  peak_bytes = std::max(peak_bytes, translated->peak_bytes);
  if (translated->wait_status != 0) {
    return failed(ReadSpirvFailure("llvm-spirv", translated->wait_status, translated->output,
                                   otherwise("llvm-spirv", *translated)));
  }
  absl::StatusOr<std::string> module = OsFilesystem().Read(kModuleFile, limits::kBlobBytesMax);
  if (!module.ok()) return FailedReply(kSpvStage, module.status(), translated->output);
  // Before it is validated: what is cut off, a full disk has cut off.
  auto kernels = ReadSpirv(*module);
  if (!kernels.ok()) return FailedReply(kSpvStage, kernels.status(), translated->output);
  const auto valid =
      tools_.validator.Run({"--target-env", "spv" + version, kModuleFile}, kClangLogFile);
  if (!valid.ok()) return FailedReply(kSpvStage, OfThisMachine(valid.status()));
  if (valid->wait_status != 0) {
    return failed(ReadSpirvFailure("spirv-val", valid->wait_status, valid->output,
                                   otherwise("spirv-val", *valid)));
  }
  const uint64_t micros = MicrosSince(started);

  Json more = Json::object();
  if (!log.empty()) more["warnings"] = log.substr(0, kWarningBytesMax);
  WorkerReply reply = DescribeKernel(request, std::move(kernels->entries), kernels->usage,
                                     WantedEntry(request.options), log, std::move(more));
  reply.usage.peak_bytes = peak_bytes;
  if (reply.outcome != WorkerReply::Outcome::kCompiled) return reply;
  // SPIR-V knows neither; the work-group size that a kernel requires stands beside.
  reply.metadata.warp_size = 1;
  reply.metadata.num_warps = 0;
  reply.assembler = "llvm-spirv " + version_;
  reply.timings.push_back({kSpvStage, micros});
  reply.stages.push_back({kSpvStage, *std::move(module)});
  return reply;
}

}  // namespace kiln
