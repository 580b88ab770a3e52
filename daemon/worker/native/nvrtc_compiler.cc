#include "daemon/worker/native/nvrtc_compiler.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "daemon/worker/native/command_arguments.h"
#include "daemon/worker/native/kernel_description.h"
#include "daemon/worker/native/nvrtc_options.h"
#include "daemon/worker/native/program.h"
#include "daemon/worker/native/ptx_text.h"
#include "daemon/worker/native/ptxas_report.h"

namespace kiln {
namespace {

constexpr char kCudaFile[] = "kernel.cu";
constexpr char kNameExpressions[] = "name-expressions";
constexpr char kLinkTimeOptimization[] = "dlink-time-opt";
constexpr size_t kNameExpressionsMax = 256;
// Every release since CUDA 11 compiles for it, and it costs nothing.
constexpr char kTrialSource[] = "__global__ void trial() {}";
constexpr int kTrialArchitecture = 80;
// From these on there are architectures with a letter behind: of this one only, of its family.
constexpr int kFirstSpecific = 90;
constexpr int kFirstFamily = 100;

std::string GpuArchitecture(std::string_view architecture) {
  return fmt::format("--gpu-architecture=sm_{}", architecture);
}

absl::StatusOr<std::vector<std::string>> TakeNameExpressions(Options& options) {
  std::vector<std::string> expressions;
  const auto given = options.extract(kNameExpressions);
  if (given.empty()) return expressions;
  const auto* items = std::get_if<OptionTuple>(&given.mapped().value);
  for (const OptionValue& item : items == nullptr ? OptionTuple() : *items) {
    const auto* text = std::get_if<std::string>(&item.value);
    if (text == nullptr || text->empty() || text->find('\0') != std::string::npos) {
      return InvalidArgument("option '{}' takes a tuple of C++ names", kNameExpressions);
    }
    expressions.push_back(*text);
  }
  if (items != nullptr && expressions.size() <= kNameExpressionsMax) return expressions;
  return InvalidArgument("option '{}' takes a tuple of at most {} C++ names", kNameExpressions,
                         kNameExpressionsMax);
}

// Where in a line the words of an error begin, behind its place; npos: it is none. What NVRTC
// quotes of the source may look the same, behind the two blanks that it puts in front.
size_t FindError(std::string_view line) {
  if (line.starts_with(' ')) return std::string_view::npos;
  size_t first = std::string_view::npos;
  for (const std::string_view word : {"): error: ", "): catastrophic error: ", "): error #"}) {
    first = std::min(first, line.find(word));
  }
  return first;
}

// "kernel.cu(12): error: expected an expression"; the first that is no warning.
CompileFailure ReadNvrtcFailure(const NvrtcOutput& output) {
  CompileFailure failure;
  failure.stage = "ptx";
  failure.output = output.log;
  failure.message = fmt::format("NVRTC: {}", output.problem);
  for (std::string_view log = output.log; !log.empty();) {
    const std::string_view line = TakeLine(log);
    const size_t at = FindError(line);
    if (at == std::string_view::npos) continue;
    const size_t bracket = line.rfind('(', at);
    failure.message = line;
    if (bracket != std::string_view::npos && line.substr(0, bracket) == kCudaFile) {
      std::from_chars(line.data() + bracket + 1, line.data() + at, failure.line);
      failure.message = line.substr(at + 3);
    }
    break;
  }
  return failure;
}

// Static shared memory that every architecture has. Some have more, none has less.
constexpr int64_t kSharedBytesEverywhere = 48 * 1024;

// NVRTC keeps ptxas's complaints to itself, and passes on only what -v says before them.
std::optional<CompileFailure> ReadAssemblingFailure(const NvrtcOutput& output) {
  const auto usage = ReadPtxasUsage(output.log);
  if (usage.empty()) return std::nullopt;
  CompileFailure failure;
  failure.stage = "cubin";
  failure.output = output.log;
  failure.message = "the assembler inside NVRTC refused the kernel and did not say why";
  for (const auto& [name, used] : usage) {
    if (used.shared_bytes.value_or(0) <= kSharedBytesEverywhere) continue;
    failure.code = absl::StatusCode::kResourceExhausted;
    failure.message +=
        fmt::format("; {} takes {} bytes of shared memory", name, *used.shared_bytes);
  }
  return failure;
}

WorkerReply RefusedReply(const NvrtcOutput& output) {
  if (output.ran_out) return FailedReply("ptx", Internal("NVRTC: {}", output.problem), output.log);
  WorkerReply reply;
  const CompileFailure complaint = ReadPtxasFailure(output.log, "");
  const auto assembling = ReadAssemblingFailure(output);
  reply.failure = complaint.deterministic ? complaint
                  : assembling            ? *assembling
                                          : ReadNvrtcFailure(output);
  return reply;
}

// The first of the names that is a kernel's and not a variable's; "" where none is.
std::string FirstKernel(std::string_view ptx, const std::vector<std::string>& names) {
  const std::vector<PtxEntry> entries = PtxEntries(ptx);
  const auto is_kernel = [&](const std::string& name) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const PtxEntry& entry) { return entry.name == name; });
  };
  const auto found = std::find_if(names.begin(), names.end(), is_kernel);
  return found == names.end() ? "" : *found;
}

// There is nothing to launch in it before it is linked.
WorkerReply DescribeLtoIr(const NvrtcOutput& output, const LoweredNames& names) {
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kCompiled;
  reply.metadata.name = output.lowered_names.empty() ? kCudaFile : output.lowered_names[0];
  const nlohmann::json metadata = {{"lowered_names", names}};
  reply.metadata.toolchain_metadata =
      metadata.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return reply;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NativeCompiler>> NvrtcCompiler::Open(
    const std::string& path, std::vector<std::string> includes) {
  absl::StatusOr<std::unique_ptr<NvrtcLibrary>> library = NvrtcLibrary::Open(path);
  if (!library.ok()) return Annotate(library.status(), path);
  std::unique_ptr<NvrtcCompiler> compiler(
      new NvrtcCompiler(*std::move(library), std::move(includes)));
  KILN_RETURN_IF_ERROR(compiler->TryOut());
  return std::unique_ptr<NativeCompiler>(std::move(compiler));
}

absl::Status NvrtcCompiler::TryOut() {
  NvrtcInput input{kTrialSource, kCudaFile, {}, {}, {}};
  input.arguments = {GpuArchitecture(fmt::format("{}", kTrialArchitecture))};
  KILN_ASSIGN_OR_RETURN(const NvrtcOutput output, library_->Compile(input));
  if (!output.compiled) return FailedPrecondition("it compiles nothing: {}", output.problem);
  // In a comment of every PTX; NVRTC's own version has no third part.
  version_ = VersionIn(output.ptx);
  if (version_.empty()) version_ = library_->version();
  // Kiln is the cache, and what ptxas says of registers stands in its log.
  for (const char* option : {"--no-cache", "--ptxas-options=-v"}) {
    if (Knows({input.arguments[0], option})) always_.emplace_back(option);
  }
  return absl::OkStatus();
}

bool NvrtcCompiler::Knows(const std::vector<std::string>& arguments) const {
  const auto output = library_->Compile({kTrialSource, kCudaFile, {}, arguments, {}});
  return output.ok() && output->compiled;
}

absl::StatusOr<nlohmann::json> NvrtcCompiler::Describe() {
  KILN_ASSIGN_OR_RETURN(const std::vector<int> numbers, library_->Architectures());
  std::vector<std::string> architectures;
  for (const int number : numbers) {
    for (const std::string_view letter : {"", "a", "f"}) {
      if (letter == "a" && number < kFirstSpecific) continue;
      if (letter == "f" && number < kFirstFamily) continue;
      std::string architecture = fmt::format("{}{}", number, letter);
      if (Knows({GpuArchitecture(architecture)})) architectures.push_back(std::move(architecture));
    }
  }
  nlohmann::json options = {{kNameExpressions, {{"type", "tuple"}}}};
  for (const CommandOption& option : NvrtcOptions()) {
    options[std::string(option.name)] = Declare(option);
  }
  return nlohmann::json{
      {"name", "nvrtc"},
      {"version", version_},
      {"assembler", "nvrtc " + version_},
      {"hidden_pointers", 0},
      {"kinds", {"cuda"}},
      {"backends", nlohmann::json::array({{{"backend", "cuda"},
                                           {"architectures", std::move(architectures)},
                                           {"stages", {"ptx", "cubin"}},
                                           {"stages_with", {{kLinkTimeOptimization, {"ltoir"}}}},
                                           {"options", std::move(options)}}})}};
}

std::vector<std::string> NvrtcCompiler::Arguments(const std::string& architecture) const {
  std::vector<std::string> arguments{GpuArchitecture(architecture)};
  for (const std::string& directory : includes_) {
    arguments.push_back(fmt::format("--include-path={}", directory));
  }
  arguments.insert(arguments.end(), always_.begin(), always_.end());
  return arguments;
}

WorkerReply NvrtcCompiler::Compile(const CompileRequest& request) {
  Options options = request.options;
  const auto expressions = TakeNameExpressions(options);
  if (!expressions.ok()) return FailedReply("options", expressions.status());
  const auto given = ArgumentsFor(NvrtcOptions(), options);
  if (!given.ok()) return FailedReply("options", given.status());
  NvrtcInput input{request.source.text, kCudaFile, request.headers,
                   Arguments(request.target.architecture), *expressions};
  input.arguments.insert(input.arguments.end(), given->begin(), given->end());

  // NVRTC writes the current directory into line tables, and which worker compiles decides nothing.
  if (::chdir("/") != 0) return FailedReply("ptx", OfThisMachine(ErrnoStatus(errno, "enter /")));
  const auto started = std::chrono::steady_clock::now();
  absl::StatusOr<NvrtcOutput> output = library_->Compile(input);
  const uint64_t micros = MicrosSince(started);
  if (!output.ok()) return FailedReply("ptx", output.status());
  if (!output->compiled) return RefusedReply(*output);

  LoweredNames names;
  for (size_t i = 0; i < expressions->size(); ++i) {
    names.emplace((*expressions)[i], output->lowered_names[i]);
  }
  const bool is_lto = options.contains(kLinkTimeOptimization);
  WorkerReply reply = is_lto
                          ? DescribeLtoIr(*output, names)
                          : DescribeKernel(request, output->ptx, output->log,
                                           FirstKernel(output->ptx, output->lowered_names), names);
  if (reply.outcome != WorkerReply::Outcome::kCompiled) return reply;
  reply.assembler = "nvrtc " + version_;
  // One call makes both.
  if (is_lto) {
    reply.timings = {{"ltoir", micros}};
    reply.stages = {{"ltoir", std::move(output->ltoir)}};
  } else {
    reply.timings = {{"ptx", micros}, {"cubin", 0}};
    reply.stages = {{"ptx", std::move(output->ptx)}, {"cubin", std::move(output->cubin)}};
  }
  return reply;
}

}  // namespace kiln
