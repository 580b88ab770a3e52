#include "daemon/chain/publishing_provider.h"

#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"

namespace kiln {

void PublishingProvider::Compile(CallContext context, CompileJobPtr job, CompileDone done) {
  next_->Compile(std::move(context), std::move(job),
                 [this, done = std::move(done)](absl::StatusOr<CompileResult> result) {
                   if (result.ok()) NoteHit(*result);
                   done(std::move(result));
                 });
}

void PublishingProvider::NoteHit(const CompileResult& result) {
  const auto* artifact = std::get_if<0>(&result.value);
  if (artifact == nullptr || result.outcome != Outcome::kHit) return;
  if (hot_.NoteUse((*artifact)->key)) return;
  executor_.Run([this, found = *artifact] {
    std::vector<Blob> blobs;
    for (const StageBlob& stage : found->stages) blobs.push_back(stage.blob);
    hot_.Publish(MakeRecord(*found), blobs);
  });
}

}  // namespace kiln
