#include "daemon/kernel/artifact_reader.h"

#include <algorithm>

#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::Status CheckHasStages(const ArtifactRecord& record, std::span<const std::string> wanted) {
  if (record.stages.empty()) return DataLoss("artifact {} has no stages", record.key.ShortHex());
  for (const std::string& stage : wanted) {
    const bool is_there =
        std::any_of(record.stages.begin(), record.stages.end(),
                    [&](const StageReference& held) { return held.stage == stage; });
    if (!is_there) return NotFound("artifact {} has no {}", record.key.ShortHex(), stage);
  }
  return absl::OkStatus();
}

bool IsWanted(const StageReference& stage, const ArtifactRecord& record,
              std::span<const std::string> wanted) {
  return &stage == &record.stages.back() ||
         std::find(wanted.begin(), wanted.end(), stage.stage) != wanted.end();
}

}  // namespace

ArtifactReader::ArtifactReader(BlobStore& blobs)
    : blobs_(blobs), decoded_(limits::kDocumentsMax, limits::kDocumentBytesMax) {}

absl::StatusOr<ReadArtifact> ArtifactReader::Read(const CallContext& context,
                                                  const FoundArtifact& found,
                                                  std::span<const std::string> wanted) {
  const ArtifactRecord& record = *found.record;
  KILN_RETURN_IF_ERROR(CheckHasStages(record, wanted));
  KILN_ASSIGN_OR_RETURN(const auto document, Document(found.record));
  auto artifact = std::make_shared<Artifact>();
  Tier tier = found.tier;
  for (const StageReference& stage : record.stages) {
    if (!IsWanted(stage, record, wanted)) continue;
    KILN_ASSIGN_OR_RETURN(FoundBlob blob, blobs_.GetBlob(context, stage.digest));
    tier = std::max(tier, blob.tier);
    artifact->stages.push_back({stage.stage, std::move(blob.blob)});
  }
  artifact->key = record.key;
  artifact->metadata = document->metadata;
  artifact->timings = document->timings;
  artifact->provenance = document->provenance;
  return ReadArtifact{std::move(artifact), tier};
}

absl::StatusOr<std::shared_ptr<const ArtifactDocument>> ArtifactReader::Document(
    const std::shared_ptr<const ArtifactRecord>& record) {
  if (auto remembered = Remembered(*record)) return remembered;
  KILN_ASSIGN_OR_RETURN(ArtifactDocument parsed, ParseDocument(record->document));
  auto document = std::make_shared<const ArtifactDocument>(std::move(parsed));
  // The decoded form takes about as much again as the text.
  const size_t bytes = 2 * record->document.size();
  const MutexLock lock(mutex_);
  decoded_.Insert(record->key, {record, document}, bytes);
  return document;
}

// A refreshed artifact has the same key and another document, so the texts are compared: far
// cheaper than parsing.
std::shared_ptr<const ArtifactDocument> ArtifactReader::Remembered(const ArtifactRecord& record) {
  Decoded decoded;
  {
    const MutexLock lock(mutex_);
    const Decoded* found = decoded_.Find(record.key);
    if (found == nullptr) return nullptr;
    decoded = *found;
  }
  const bool is_same =
      decoded.record.get() == &record || decoded.record->document == record.document;
  return is_same ? decoded.document : nullptr;
}

}  // namespace kiln
