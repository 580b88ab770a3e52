#include "storage/verification.h"

#include <optional>
#include <string>

#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/lookup_without_use.h"

namespace kiln {
namespace {

// Why a record's blobs are damaged; none: they are whole. An error: the store could not look.
absl::StatusOr<std::optional<std::string>> DamageOf(const CallContext& context, BlobStore& blobs,
                                                    const ArtifactRecord& record,
                                                    VerificationProgress& progress) {
  for (const StageReference& stage : record.stages) {
    const auto found = blobs.GetBlob(context, stage.digest);
    if (absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status())) {
      return fmt::format("{}: {}", stage.stage, Message(found.status()));
    }
    if (!found.ok()) {
      return Annotate(found.status(), fmt::format("verify {}", record.key.ShortHex()));
    }
    const uint64_t size = found->blob.size_bytes();
    progress.checked_bytes += size;
    if (size != stage.size_bytes) {
      return fmt::format("{}: {} bytes where the record says {}", stage.stage, size,
                         stage.size_bytes);
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<VerificationProgress> VerifyArtifacts(const CallContext& context,
                                                     ArtifactIndex& index, BlobStore& blobs,
                                                     ArtifactIndex& remove_from,
                                                     const VerificationCallback& callback) {
  VerificationProgress progress;
  const auto verify = [&](const ArtifactRecord& scanned) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto damage, DamageOf(context, blobs, scanned, progress));
    if (!damage) return absl::OkStatus();
    // Blobs leave with their record, so only an unchanged record is damaged.
    KILN_ASSIGN_OR_RETURN(const auto now, LookupWithoutUse(context, index, scanned.key));
    if (!now || *now->record != scanned) return absl::OkStatus();
    LogWarning("removed a damaged artifact", {{"key", scanned.key.Hex()}, {"damage", *damage}});
    progress.damaged.push_back(scanned.key);
    const absl::Status removed = remove_from.Remove(context, scanned.key);
    if (removed.ok() || absl::IsNotFound(removed)) return absl::OkStatus();
    return Annotate(removed, fmt::format("remove the damaged {}", scanned.key.ShortHex()));
  };
  std::optional<Digest> after;
  while (true) {
    KILN_ASSIGN_OR_RETURN(const auto page, index.Scan(context, after, limits::kListPageMax));
    if (page.empty()) break;
    for (const FoundArtifact& found : page) {
      if (context.cancellation.IsCancelled()) {
        return Cancelled("verification was cancelled after {} artifacts", progress.checked);
      }
      KILN_RETURN_IF_ERROR(verify(*found.record));
      ++progress.checked;
      callback(progress);
    }
    after = page.back().record->key;
  }
  progress.done = true;
  callback(progress);
  return progress;
}

}  // namespace kiln
