#include "daemon/rpc/description_memo.h"

#include <utility>

#include "daemon/messages/translate.h"

namespace kiln {
namespace {

bool Describes(const ArtifactDocument& values, const Artifact& artifact) {
  return values.metadata == artifact.metadata && values.timings == artifact.timings &&
         values.provenance == artifact.provenance;
}

std::string EncodeDescription(const Artifact& artifact) {
  v1::CompileResponse message;
  DescribeTo(artifact, message);
  return message.SerializeAsString();
}

// Decoded, the values take about twice as much again.
size_t CostOf(const std::string& bytes) { return 3 * bytes.size(); }

}  // namespace

std::shared_ptr<const std::string> DescriptionMemo::Encode(const Artifact& artifact) {
  DescriptionPtr description = Find(artifact);
  if (description == nullptr) {
    description = std::make_shared<const Description>(Description{
        {artifact.metadata, artifact.timings, artifact.provenance}, EncodeDescription(artifact)});
    const MutexLock lock(mutex_);
    known_.Insert(artifact.key, description, CostOf(description->bytes));
  }
  const std::string* bytes = &description->bytes;
  return {std::move(description), bytes};
}

// Null where none is known, or one with other values. Compares outside of the lock.
DescriptionMemo::DescriptionPtr DescriptionMemo::Find(const Artifact& artifact) {
  DescriptionPtr known;
  {
    const MutexLock lock(mutex_);
    if (const DescriptionPtr* found = known_.Find(artifact.key)) known = *found;
  }
  return known != nullptr && Describes(known->values, artifact) ? known : nullptr;
}

}  // namespace kiln
