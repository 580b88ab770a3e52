#include "client/cli/commands/request_source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "client/cli/commands/command_parser.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/requests/options.h"
#include "client/cli/requests/ptxas_selector.h"
#include "client/cli/requests/request_json.h"

namespace kiln::cli {
namespace {

// The contract's strings are UTF-8; an argument may be anything.
absl::Status CheckText(std::string_view text, std::string_view flag) {
  if (ContractName(text) == text) return absl::OkStatus();
  return InvalidArgument("{} is not valid UTF-8, or longer than 1 KiB", flag);
}

absl::Status SetWords(const RequestFlags& flags, v1::CompileRequest& request) {
  if (!flags.kind.empty()) {
    KILN_ASSIGN_OR_RETURN(const v1::SourceKind kind, ParseSourceKind(flags.kind));
    request.mutable_source()->set_kind(kind);
  }
  if (!flags.cache_policy.empty()) {
    KILN_ASSIGN_OR_RETURN(const v1::CachePolicy policy, ParseCachePolicy(flags.cache_policy));
    request.set_cache_policy(policy);
  }
  if (!flags.priority.empty()) {
    KILN_ASSIGN_OR_RETURN(const v1::Priority priority, ParsePriority(flags.priority));
    request.set_priority(priority);
  }
  return absl::OkStatus();
}

absl::Status SetTexts(const RequestFlags& flags, v1::CompileRequest& request) {
  KILN_RETURN_IF_ERROR(CheckText(flags.toolchain, "--toolchain"));
  KILN_RETURN_IF_ERROR(CheckText(flags.job, "--job"));
  request.set_toolchain(flags.toolchain);
  KILN_RETURN_IF_ERROR(CheckText(flags.ptxas, "--ptxas"));
  if (!flags.ptxas.empty()) {
    KILN_ASSIGN_OR_RETURN(*request.mutable_ptxas(), PtxasSelector(flags.ptxas));
  }
  request.set_job(flags.job);
  for (const std::string& stage : flags.stages) {
    KILN_RETURN_IF_ERROR(CheckText(stage, "--emit"));
    if (stage.empty()) return InvalidArgument("--emit: a stage has no name; ptx,cubin names two");
    request.add_stages(stage);
  }
  return absl::OkStatus();
}

// Fills in what a line left open.
void FillIn(const v1::CompileRequest& shape, v1::CompileRequest& request) {
  if (request.toolchain().empty()) request.set_toolchain(shape.toolchain());
  if (request.ptxas().empty()) request.set_ptxas(shape.ptxas());
  if (request.job().empty()) request.set_job(shape.job());
  if (request.stages().empty()) *request.mutable_stages() = shape.stages();
  if (request.cache_policy() == v1::CACHE_POLICY_UNSPECIFIED) {
    request.set_cache_policy(shape.cache_policy());
  }
  if (request.priority() == v1::PRIORITY_UNSPECIFIED) request.set_priority(shape.priority());
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

// Repeats each request for each target, without reading it again.
class ForEachTarget {
 public:
  ForEachTarget(NamedRequestSource next, std::vector<v1::Target> targets)
      : next_(std::move(next)), targets_(std::move(targets)) {}

  std::optional<NamedRequest> Next() {
    if (targets_.empty()) return next_();
    if (position_ == 0) {
      current_ = next_();
      if (!current_.has_value() || !current_->request.ok()) return current_;
    }
    *current_->request->mutable_target() = targets_[position_];
    position_ = (position_ + 1) % targets_.size();
    return current_;
  }

 private:
  const NamedRequestSource next_;
  const std::vector<v1::Target> targets_;
  size_t position_ = 0;
  std::optional<NamedRequest> current_;
};

NamedRequestSource Multiplied(NamedRequestSource next, std::vector<v1::Target> targets) {
  auto multiplied = std::make_shared<ForEachTarget>(std::move(next), std::move(targets));
  return [multiplied] { return multiplied->Next(); };
}

}  // namespace

void AddRequestFlags(Arguments& arguments, RequestFlags& flags) {
  arguments.Add("--target", flags.targets,
                "What to compile for: cuda:90, hip:gfx942. Repeat it for several",
                {.value_name = "TARGET"});
  arguments.Add("--toolchain", flags.toolchain,
                "The compiler, as triton==3.6.0 or by its fingerprint (default: the daemon's)");
  arguments.Add(
      "--ptxas", flags.ptxas,
      "What assembles PTX: a file, ptxas==13.0.88 or a SHA-256 (default: the toolchain's)",
      {.is_path = true});
  arguments.Add("--cache", flags.cache_policy, "use, refresh or only-if-cached",
                {.value_name = "POLICY"});
  arguments.Add("--priority", flags.priority, "waiting-rank, autotune, warm or background");
  arguments.Add("--job", flags.job, "The job's name: jobs get equal shares");
}

absl::StatusOr<RequestTemplate> RequestTemplate::Of(const RequestFlags& flags) {
  RequestTemplate shape;
  KILN_RETURN_IF_ERROR(SetWords(flags, shape.request));
  KILN_RETURN_IF_ERROR(SetTexts(flags, shape.request));
  for (const std::string& option : flags.options) {
    KILN_RETURN_IF_ERROR(CheckText(option, "--option"));
  }
  KILN_RETURN_IF_ERROR(SetOptions(flags.options, shape.request));
  for (const std::string& text : flags.targets) {
    KILN_RETURN_IF_ERROR(CheckText(text, "--target"));
    KILN_ASSIGN_OR_RETURN(v1::Target target, ParseTarget(text));
    shape.targets.push_back(std::move(target));
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
  auto read = [file = std::make_shared<RequestFile>(std::move(file)),
               request = std::move(shape.request)]() -> std::optional<NamedRequest> {
    auto named = file->Next();
    if (named.has_value() && named->request.ok()) FillIn(request, *named->request);
    return named;
  };
  return Multiplied(std::move(read), std::move(shape.targets));
}

NamedRequestSource WithOwnStages(NamedRequestSource next, KnownStages stages) {
  return [next = std::move(next), stages = std::move(stages)] {
    auto named = next();
    if (named.has_value() && named->request.ok()) stages.DropForeignStages(*named->request);
    return named;
  };
}

std::optional<uint64_t> CountRequests(const std::string& path, const RequestFlags& flags) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) return std::nullopt;
  uint64_t count = 0;
  LineReader lines(stream, 1);
  std::string line;
  for (auto outcome = lines.Next(line); outcome != LineReader::Outcome::kEnd;
       outcome = lines.Next(line)) {
    if (!line.empty() || outcome == LineReader::Outcome::kTooLong) ++count;
  }
  return count * std::max<size_t>(1, flags.targets.size());
}

}  // namespace kiln::cli
