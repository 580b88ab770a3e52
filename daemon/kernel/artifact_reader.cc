#include "daemon/kernel/artifact_reader.h"

#include <algorithm>

#include "storage/base/limits.h"

namespace kiln {
namespace {

absl::Status CheckHasStages(const ArtifactRecord& record, std::span<const std::string> wanted) {
  if (record.stages.empty()) return DataLoss("artifact {} has no stages", record.key.ShortHex());
  for (const std::string& stage : wanted) {
    if (FindStage(record.stages, stage) == nullptr) {
      return NotFound("artifact {} has no {}", record.key.ShortHex(), stage);
    }
  }
  return absl::OkStatus();
}

bool IsWanted(const StageReference& stage, const ArtifactRecord& record,
              std::span<const std::string> wanted) {
  return &stage == &record.stages.back() ||
         std::find(wanted.begin(), wanted.end(), stage.stage) != wanted.end();
}

// With the final binary alone.
struct Reading final : RecordReading {
  Artifact artifact;
};

// Shares the record. Null where nobody has read it.
std::shared_ptr<const Artifact> KeptArtifact(const std::shared_ptr<const ArtifactRecord>& record) {
  const auto* reading = static_cast<const Reading*>(record->reading.Get());
  if (reading == nullptr) return nullptr;
  return {record, &reading->artifact};
}

}  // namespace

absl::StatusOr<ReadArtifact> LoadArtifact(const CallContext& context, BlobStore& blobs,
                                          const FoundArtifact& found,
                                          std::span<const std::string> wanted) {
  const ArtifactRecord& record = *found.record;
  KILN_RETURN_IF_ERROR(CheckHasStages(record, wanted));
  const bool wants_binary_alone =
      std::all_of(wanted.begin(), wanted.end(),
                  [&](const std::string& stage) { return stage == record.stages.back().stage; });
  if (wants_binary_alone) {
    if (auto kept = KeptArtifact(found.record)) return ReadArtifact{std::move(kept), found.tier};
  }
  auto reading = std::make_unique<Reading>();
  Artifact& artifact = reading->artifact;
  if (record.description.starts_with(kDescriptionVersion)) {
    artifact.description.Set(std::make_unique<const std::string>(record.description, 1));
  } else {
    KILN_ASSIGN_OR_RETURN(static_cast<ArtifactDocument&>(artifact), ParseDocument(record.document));
  }
  artifact.key = record.key;
  artifact.provenance.compile_micros = record.compile_micros;
  Tier tier = found.tier;
  for (const StageReference& stage : record.stages) {
    if (!IsWanted(stage, record, wanted)) continue;
    if (found.binary && &stage == &record.stages.back()) {
      artifact.stages.push_back({stage.stage, *found.binary});
      continue;
    }
    KILN_ASSIGN_OR_RETURN(FoundBlob blob, blobs.GetBlob(context, stage.digest));
    tier = std::max(tier, blob.tier);
    artifact.stages.push_back({stage.stage, std::move(blob.blob)});
  }
  // A larger binary may be one that the memory does not keep.
  if (wants_binary_alone && artifact.stages.back().blob.size_bytes() <= limits::kInlineBytesMax) {
    record.reading.Set(std::move(reading));
    return ReadArtifact{KeptArtifact(found.record), tier};
  }
  const std::shared_ptr<const Reading> read = std::move(reading);
  return ReadArtifact{{read, &read->artifact}, tier};
}

}  // namespace kiln
