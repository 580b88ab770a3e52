#include "daemon/chain/publishing_provider.h"

#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"

namespace kiln {

void PublishingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  next().Compile(std::move(context), std::move(job),
                 [this, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   if (result.ok()) NoteHit(*result);
                   done(std::move(result));
                 });
}

void PublishingProvider::NoteHit(const CompileResult& result) {
  const std::shared_ptr<const Artifact> artifact = result.shared_artifact();
  if (artifact == nullptr || result.outcome != Outcome::kHit) return;
  if (publisher_.NoteUse(artifact->key)) return;
  executor_.Run([this, artifact] {
    std::vector<Blob> blobs;
    for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
    publisher_.Publish(MakeRecord(*artifact), blobs);
  });
}

}  // namespace kiln
