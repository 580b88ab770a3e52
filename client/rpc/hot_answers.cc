#include "client/rpc/hot_answers.h"

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_resolver.h"
#include "daemon/messages/translate.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// Whether a file of the hot directory can be all of the answer. The rest of the request is checked
// where it becomes a job.
bool MayBeAnswered(const v1::CompileRequest& request) {
  const bool reads_cache = request.cache_policy() != v1::CACHE_POLICY_REFRESH;
  return reads_cache && request.stages_size() <= 1 &&
         request.job().size() <= limits::kNameBytesMax && FromProto(request.priority()).ok();
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
  if (request.stages_size() == 1 && request.stages(0) != found.stage()) {
    return NotFound("{} is not published", request.stages(0));
  }
  KILN_ASSIGN_OR_RETURN(const Digest digest, Digest::FromBytes(found.digest()));
  if (!verified.Matches(digest, found.binary())) return DataLoss("the binary is damaged");
  v1::CompileResponse answer;
  KILN_RETURN_IF_ERROR(Describe(found, answer));
  ToProto(job->key, Outcome::kHit, Tier::kMemory, answer);
  v1::StageBlob& stage = *answer.add_stages();
  ToProto(StageReference{std::string(found.stage()), digest, found.binary().size()}, stage);
  stage.set_content(found.binary().data(), found.binary().size());
  return answer;
}

}  // namespace kiln
