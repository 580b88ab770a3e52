#include "client/rpc/hot_answers.h"

#include <algorithm>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_resolver.h"
#include "daemon/messages/translate.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// Whether files of the hot directory can be all of the answer. The rest of the request is checked
// where it becomes a job.
bool MayBeAnswered(const v1::CompileRequest& request) {
  const bool reads_cache = request.cache_policy() != v1::CACHE_POLICY_REFRESH;
  return reads_cache && request.job().size() <= limits::kNameBytesMax &&
         FromProto(request.priority()).ok();
}

absl::Status Describe(const HotArtifact& artifact, v1::CompileResponse& answer) {
  if (artifact.description().starts_with(kDescriptionVersion)) {
    const std::string_view fields = artifact.description().substr(1);
    if (answer.ParseFromArray(fields.data(), static_cast<int>(fields.size()))) {
      return absl::OkStatus();
    }
    return DataLoss("the description is damaged");
  }
  KILN_ASSIGN_OR_RETURN(const ArtifactDocument document, ReadDocument(artifact.document()));
  DescribeTo(document, answer);
  return absl::OkStatus();
}

// DATA_LOSS where the content is not that of the digest.
absl::Status AddStage(std::string_view name, std::string_view digest_bytes,
                      std::string_view content, VerifiedContents& verified,
                      v1::CompileResponse& answer) {
  KILN_ASSIGN_OR_RETURN(const Digest digest, Digest::FromBytes(digest_bytes));
  if (!verified.Matches(digest, content)) return DataLoss("the {} is damaged", name);
  v1::StageBlob& stage = *answer.add_stages();
  ToProto(StageReference{std::string(name), digest, content.size()}, stage);
  stage.set_content(content.data(), content.size());
  return absl::OkStatus();
}

absl::Status AddStages(const HotReader& reader, const CompileJob& job, const HotArtifact& found,
                       VerifiedContents& verified, v1::CompileResponse& answer) {
  const auto add_binary = [&] {
    return AddStage(found.stage(), found.digest(), found.binary(), verified, answer);
  };
  if (job.request.stages.empty()) return add_binary();
  std::shared_ptr<const MappedArtifact> earlier;
  for (const std::string& name : job.request.stages) {
    if (name == found.stage()) {
      KILN_RETURN_IF_ERROR(add_binary());
      continue;
    }
    if (earlier == nullptr) {
      KILN_ASSIGN_OR_RETURN(const Digest binary, Digest::FromBytes(found.digest()));
      KILN_ASSIGN_OR_RETURN(earlier, reader.FindEarlierStages(job.key, binary));
    }
    const auto& stages = earlier->layout().stages;
    const auto stage = std::ranges::find(stages, name, &ArtifactLayoutStage::name);
    if (stage == stages.end()) return NotFound("{} is not published", name);
    KILN_RETURN_IF_ERROR(AddStage(name, stage->digest, stage->bytes, verified, answer));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::CompileResponse> FindHotAnswer(const HotReader& reader,
                                                  VerifiedContents& verified,
                                                  const v1::CompileRequest& request) {
  if (!MayBeAnswered(request)) return NotFound("the daemon must answer such a request");
  KILN_ASSIGN_OR_RETURN(const auto toolchains, reader.Toolchains());
  KILN_ASSIGN_OR_RETURN(CompileRequest converted, FromProto(v1::CompileRequest(request)));
  KILN_ASSIGN_OR_RETURN(const CompileJobPtr job,
                        RequestResolver(*toolchains).Resolve(std::move(converted)));
  KILN_ASSIGN_OR_RETURN(const HotArtifact found, reader.Find(job->key));
  v1::CompileResponse answer;
  KILN_RETURN_IF_ERROR(Describe(found, answer));
  ToProto(job->key, Outcome::kHit, Tier::kMemory, answer);
  KILN_RETURN_IF_ERROR(AddStages(reader, *job, found, verified, answer));
  return answer;
}

}  // namespace kiln
