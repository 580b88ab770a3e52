#include "client/cli/requests/batch.h"

#include <unordered_map>
#include <utility>

#include "client/cli/output/enum_names.h"
#include "client/cli/requests/ptxas_selector.h"
#include "client/cli/requests/sass.h"

namespace kiln::cli {
namespace {

class Batch {
 public:
  Batch(Client& client, const CallOptions& call, const Clock& clock, const BatchParts& parts,
        BatchCounts& counts)
      : ptxas_namer_(client, call), clock_(clock), parts_(parts), counts_(counts) {}

  // The next request that can be sent; those that could not be read are reported on the way.
  bool Next(v1::CompileRequest& request) {
    while (auto named = parts_.next()) {
      Pending pending = Describe(*named);
      if (const absl::Status status = TakeSass(named->request, pending); !status.ok()) {
        named->request = status;
      }
      if (named->request.ok()) {
        request = *std::move(named->request);
        pending.ptxas = request.ptxas();
        if (request.has_target()) pending.target = TargetName(request.target());
        if (request.cache_policy() == v1::CACHE_POLICY_ONLY_IF_CACHED) pending.cached = request;
        pending_.emplace(sent_++, std::move(pending));
        return true;
      }
      Report(std::move(pending), std::move(named->request).status());
    }
    return false;
  }

  void ReportUnsent(const absl::Status& why) {
    while (auto named = parts_.next()) {
      Pending pending = Describe(*named);
      if (named->request.ok()) pending.target = TargetName(named->request->target());
      Report(std::move(pending), named->request.ok() ? why : named->request.status());
    }
  }

  void OnAnswer(uint64_t index, absl::StatusOr<v1::CompileResponse> answer) {
    auto pending = pending_.extract(index);
    if (!answer.ok()) {
      answer = ptxas_namer_.Annotated(answer.status(), pending.mapped().ptxas);
    } else if (!pending.mapped().stages.empty()) {
      const absl::Status added = AddSass(**nvdisasm_, pending.mapped().stages, *answer);
      if (!added.ok()) answer = added;
    }
    Report(std::move(pending.mapped()), std::move(answer));
  }

 private:
  struct Pending {
    std::string name;
    std::string source_file;
    uint64_t line;
    std::string target;
    std::string file;
    SteadyTime started;
    std::optional<v1::CompileRequest> cached = std::nullopt;  // a request for the cache alone
    std::string ptxas = "";                                   // as the daemon was told
    std::vector<std::string> stages = {};  // what was asked for, where "sass" is among it
  };

  // Before anything is compiled in vain.
  absl::Status TakeSass(absl::StatusOr<v1::CompileRequest>& request, Pending& pending) {
    if (request.ok()) pending.stages = AskForCubin(*request);
    if (pending.stages.empty()) return absl::OkStatus();
    if (!nvdisasm_) nvdisasm_ = FindNvdisasm(parts_.nvdisasm);
    return nvdisasm_->status();
  }

  Pending Describe(const NamedRequest& named) const {
    return {named.name,
            named.source_file,
            named.line,
            "",
            parts_.name_file ? parts_.name_file(named.name) : "",
            clock_.Now()};
  }

  void Report(Pending pending, absl::StatusOr<v1::CompileResponse> answer) {
    const auto duration = clock_.Now() - pending.started;
    BatchAnswer reported{std::move(pending.name),
                         std::move(pending.source_file),
                         pending.line,
                         std::move(pending.target),
                         std::move(pending.file),
                         std::chrono::duration_cast<std::chrono::microseconds>(duration),
                         std::move(answer)};
    if (absl::IsNotFound(reported.answer.status())) reported.missed = std::move(pending.cached);
    parts_.report(reported);
    Count(reported.answer);
  }

  void Count(const absl::StatusOr<v1::CompileResponse>& answer) {
    ++counts_.requests;
    if (!answer.ok()) {
      ++counts_.failed;
      return;
    }
    counts_.bytes += BytesOf(*answer);
    switch (answer->outcome()) {
      case v1::OUTCOME_HIT:
        ++counts_.hit;
        break;
      case v1::OUTCOME_JOINED:
        ++counts_.joined;
        break;
      default:
        ++counts_.compiled;
    }
  }

  PtxasNamer ptxas_namer_;
  std::optional<absl::StatusOr<std::string>> nvdisasm_;  // once one is needed
  const Clock& clock_;
  const BatchParts& parts_;
  BatchCounts& counts_;
  std::unordered_map<uint64_t, Pending> pending_;
  uint64_t sent_ = 0;
};

}  // namespace

uint64_t BytesOf(const v1::CompileResponse& response) {
  uint64_t bytes = 0;
  for (const v1::StageBlob& stage : response.stages()) bytes += stage.size_bytes();
  return bytes;
}

absl::Status RunBatch(Client& client, const ManyOptions& options, const Clock& clock,
                      const BatchParts& parts, BatchCounts& counts) {
  const SteadyTime started = clock.Now();
  Batch batch(client, options.call, clock, parts, counts);
  absl::Status status =
      client.CompileMany([&](v1::CompileRequest& request) { return batch.Next(request); },
                         [&](uint64_t index, absl::StatusOr<v1::CompileResponse> answer) {
                           batch.OnAnswer(index, std::move(answer));
                         },
                         options);
  if (!status.ok() && parts.report_unsent) batch.ReportUnsent(status);
  counts.wall = std::chrono::duration_cast<std::chrono::microseconds>(clock.Now() - started);
  return status;
}

}  // namespace kiln::cli
