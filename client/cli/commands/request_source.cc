#include "client/cli/commands/request_source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "client/cli/commands/command_parser.h"
#include "client/cli/commands/errors.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/requests/own_entries.h"
#include "client/cli/requests/request_json.h"
#include "storage/base/limits.h"
#include "storage/base/units.h"

namespace kiln::cli {
namespace {

// A flag that sets the field of that name in every request.
struct FieldFlag {
  const char* flag;
  const char* field;
  const char* help;
  ArgumentTraits traits;
};

const FieldFlag kFieldFlags[] = {
    {"--toolchain",
     "toolchain",
     "The compiler, as triton==3.6.0 or by its fingerprint's first digits (default: the daemon's)",
     {}},
    {"--ptxas",
     "ptxas",
     "What assembles PTX: a file, ptxas==13.0.88 or a SHA-256 (default: the toolchain's)",
     {.is_path = true}},
    {"--cache", "cache_policy", "use, refresh or only-if-cached", {.value_name = "POLICY"}},
    {"--priority", "priority", "waiting-rank, autotune, warm or background", {}},
    {"--job",
     "job",
     "The job's name: jobs get equal shares (default: $KILN_JOB or $SLURM_JOB_ID)",
     {}},
};

// The first of them say which compiler.
constexpr size_t kCompilerFlags = 2;

void AddFieldFlags(Arguments& arguments, RequestFlags& flags, std::span<const FieldFlag> added) {
  for (const FieldFlag& each : added) {
    arguments.Add(each.flag, flags.fields[each.field], each.help, each.traits);
  }
}

constexpr size_t kAheadRequestsMax = 64;
constexpr uint64_t kAheadBytesMax = 4 * limits::kMiB;

uint64_t BytesOf(const NamedRequest& named) {
  return named.request.ok() ? named.request->ByteSizeLong() : 0;
}

// The request of a line, with the template's values where the line is silent.
void FillIn(v1::CompileRequest filled, v1::CompileRequest& request) {
  if (!request.stages().empty()) filled.clear_stages();
  filled.MergeFrom(request);
  request.Swap(&filled);
}

NamedRequest ReadFile(const std::string& path, const v1::CompileRequest& shape) {
  NamedRequest named{std::filesystem::path(path).stem().string(), 0, shape, path};
  absl::StatusOr<std::string> text = ReadSource(path);
  if (!text.ok()) {
    named.request = text.status();
    return named;
  }
  v1::KernelSource& source = *named.request->mutable_source();
  *source.mutable_text() = *std::move(text);
  source.set_name(ContractName(named.name));
  if (source.kind() == v1::SOURCE_KIND_UNSPECIFIED) source.set_kind(SourceKindOfFile(path));
  return named;
}

bool IsSame(const v1::Target& a, const v1::Target& b) {
  return a.backend() == b.backend() && a.architecture() == b.architecture();
}

// Repeats each request for each target, without reading it again.
NamedRequestSource Multiplied(NamedRequestSource next, std::vector<v1::Target> targets) {
  if (targets.empty()) return next;
  return [next = std::move(next), targets = std::move(targets), position = size_t{0},
          read = std::optional<NamedRequest>()]() mutable {
    if (position == 0) read = next();
    std::optional<NamedRequest> named = read;
    if (!named.has_value() || !named->request.ok()) return named;
    v1::Target& target = *named->request->mutable_target();
    Recorded& recorded = named->recorded;
    recorded.is_retargeted = !target.architecture().empty() && !IsSame(target, targets[position]);
    recorded.is_refused = recorded.is_refused && !recorded.is_retargeted;
    target = targets[position];
    position = (position + 1) % targets.size();
    return named;
  };
}

// The requests of a manifest, or the lines that may be requests. Nothing where the file cannot be
// read twice.
std::optional<uint64_t> CountLines(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  if (ManifestReader::IsManifest(path)) {
    const auto manifest = ManifestReader::Open(path);
    if (!manifest.ok()) return std::nullopt;
    return static_cast<uint64_t>(manifest->index().counts_size());
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) return std::nullopt;
  uint64_t count = 0;
  std::array<char, 16> begin{};  // long enough to tell a request from other lines
  while (stream.getline(begin.data(), begin.size()) || stream.gcount() > 0) {
    if (stream.fail()) {
      stream.clear();
      stream.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    const std::string_view line(begin.data());
    if (!line.empty() && !IsOwnEntryLine(line) && !IsOriginLine(line)) ++count;
  }
  return count;
}

}  // namespace

void AddCompilerFlags(Arguments& arguments, RequestFlags& flags) {
  arguments.Add("--target", flags.targets,
                "What to compile for: cuda:90, hip:gfx942. Repeat it for several",
                {.value_name = "TARGET"});
  AddFieldFlags(arguments, flags, std::span(kFieldFlags).first<kCompilerFlags>());
}

void AddRequestFlags(Arguments& arguments, RequestFlags& flags) {
  AddCompilerFlags(arguments, flags);
  AddFieldFlags(arguments, flags, std::span(kFieldFlags).subspan<kCompilerFlags>());
}

absl::StatusOr<RequestTemplate> RequestTemplate::Of(const RequestFlags& flags) {
  RequestTemplate shape;
  for (const FieldFlag& each : kFieldFlags) {
    const auto given = flags.fields.find(each.field);
    if (given == flags.fields.end() || given->second.empty()) continue;
    KILN_RETURN_IF_ERROR(SetField(each.field, given->second, each.flag, shape.request));
  }
  if (!flags.kind.empty()) {
    KILN_RETURN_IF_ERROR(SetField("kind", flags.kind, "--kind", shape.request));
  }
  if (std::count(flags.stages.begin(), flags.stages.end(), "") > 0) {
    return InvalidArgument("--emit: a stage has no name; ptx,cubin names two");
  }
  KILN_RETURN_IF_ERROR(SetField("stages", flags.stages, "--emit", shape.request));
  KILN_RETURN_IF_ERROR(SetOptions(flags.options, shape.request));
  for (const std::string& text : flags.targets) {
    v1::CompileRequest for_target;
    KILN_RETURN_IF_ERROR(SetField("target", text, "--target", for_target));
    shape.targets.push_back(for_target.target());
  }
  return shape;
}

NamedRequestSource FromSourceFiles(std::vector<std::string> paths, RequestTemplate shape) {
  const bool is_named_by_target = shape.targets.size() > 1;
  auto read = [paths = std::move(paths), request = std::move(shape.request),
               position = size_t{0}]() mutable -> std::optional<NamedRequest> {
    if (position == paths.size()) return std::nullopt;
    return ReadFile(paths[position++], request);
  };
  NamedRequestSource each = Multiplied(std::move(read), std::move(shape.targets));
  if (!is_named_by_target) return each;
  return [each]() -> std::optional<NamedRequest> {
    auto named = each();
    if (named.has_value() && named->request.ok()) {
      const v1::Target& target = named->request->target();
      named->name += fmt::format(".{}-{}", target.backend(), target.architecture());
    }
    return named;
  };
}

NamedRequestSource FromRequestFile(RequestFile file, RequestTemplate shape) {
  auto filled = Changed(
      [file = std::make_shared<RequestFile>(std::move(file))] { return file->Next(); },
      [request = std::move(shape.request)](v1::CompileRequest& line) { FillIn(request, line); });
  return Multiplied(std::move(filled), std::move(shape.targets));
}

NamedRequestSource Changed(NamedRequestSource next,
                           std::function<void(v1::CompileRequest&)> change) {
  return [next = std::move(next), change = std::move(change)] {
    auto named = next();
    if (named.has_value() && named->request.ok()) change(*named->request);
    return named;
  };
}

NamedRequestSource Chained(std::vector<NamedRequestSource> sources) {
  return [sources = std::move(sources), position = size_t{0}]() mutable {
    std::optional<NamedRequest> named;
    while (position < sources.size() && !(named = sources[position]())) ++position;
    return named;
  };
}

NamedRequestSource LongestFirst(NamedRequestSource next) {
  struct ReadRequests {
    // The key is the recorded time, and the size.
    std::multimap<std::pair<uint64_t, uint64_t>, NamedRequest, std::greater<>> requests;
    uint64_t bytes = 0;
    bool is_over = false;
  };
  return [next = std::move(next), read = std::make_shared<ReadRequests>()] {
    auto& [requests, bytes, is_over] = *read;
    while (!is_over && requests.size() < kAheadRequestsMax && bytes < kAheadBytesMax) {
      std::optional<NamedRequest> named = next();
      is_over = !named.has_value();
      if (is_over) break;
      const uint64_t size = BytesOf(*named);
      bytes += size;
      requests.emplace(std::pair(named->recorded.compile_micros, size), *std::move(named));
    }
    std::optional<NamedRequest> longest;
    if (requests.empty()) return longest;
    longest = std::move(requests.extract(requests.begin()).mapped());
    bytes -= BytesOf(*longest);
    return longest;
  };
}

absl::StatusOr<Shard> Shard::Parse(std::string_view text) {
  if (text.empty()) return Shard{};
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto number = ParseInteger(text.substr(0, slash));
    const auto count = ParseInteger(text.substr(slash + 1));
    if (number.ok() && count.ok() && *number >= 1 && *number <= *count) {
      return Shard{static_cast<uint64_t>(*number), static_cast<uint64_t>(*count)};
    }
  }
  return InvalidArgument("--shard '{}': write 3/16 for the third of 16 parts", text);
}

bool Shard::Has(const NamedRequest& named) const {
  if (count == 1) return true;
  if (!named.request.ok()) return number == 1;
  return DigestHash()(RequestDigest(*named.request)) % count == number - 1;
}

NamedRequestSource OfShard(NamedRequestSource next, Shard shard) {
  return [next = std::move(next), shard] {
    auto named = next();
    while (named.has_value() && !shard.Has(*named)) named = next();
    return named;
  };
}

namespace {

// Whether a toolchain of this name compiles other kinds. A fingerprint has no name.
bool IsForOtherKinds(std::string_view toolchain, v1::SourceKind kind) {
  const std::string_view name = toolchain.substr(0, toolchain.find("=="));
  if (name == "triton") return kind != v1::SOURCE_KIND_TTIR && kind != v1::SOURCE_KIND_TTGIR;
  if (name == "nvrtc") return kind != v1::SOURCE_KIND_CUDA_CXX;
  if (name == "ptxas") return kind != v1::SOURCE_KIND_PTX;
  return name == "clang" && kind != v1::SOURCE_KIND_OPENCL;
}

}  // namespace

absl::StatusOr<NamedRequestSource> OpenRequests(const std::vector<std::string>& files,
                                                const RequestTemplate& shape, Shard shard) {
  RequestTemplate rest = shape;
  rest.request.clear_toolchain();
  std::vector<NamedRequestSource> sources;
  for (const std::string& path : files) {
    KILN_ASSIGN_OR_RETURN(RequestFile file, About(path, RequestFile::Open(path)));
    sources.push_back(FromRequestFile(std::move(file), rest));
  }
  // Recorded requests name the compiler that they were recorded with. What compiles other kinds
  // does not take its place.
  return [next = OfShard(Chained(std::move(sources)), shard), toolchain = shape.request.toolchain(),
          ptxas = shape.request.ptxas()] {
    auto named = next();
    if (!named.has_value() || !named->request.ok()) return named;
    v1::CompileRequest& request = *named->request;
    const std::pair recorded(request.toolchain(), request.ptxas());
    request.clear_stages();
    if (!toolchain.empty() && !IsForOtherKinds(toolchain, request.source().kind())) {
      request.set_toolchain(toolchain);
      named->recorded.triton.clear();
    }
    if (!ptxas.empty() && !request.ptxas().empty()) request.set_ptxas(ptxas);
    // Another compiler may take it.
    if (recorded != std::pair(request.toolchain(), request.ptxas())) {
      named->recorded.is_refused = false;
    }
    return named;
  };
}

std::optional<uint64_t> CountRequests(const std::vector<std::string>& files,
                                      const RequestFlags& flags, Shard shard) {
  uint64_t total = 0;
  for (const std::string& path : files) {
    const auto count = CountLines(path);
    if (!count.has_value()) return std::nullopt;
    total += *count * std::max<size_t>(1, flags.targets.size());
  }
  return (total + shard.count - 1) / shard.count;
}

}  // namespace kiln::cli
