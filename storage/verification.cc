#include "storage/verification.h"

#include <optional>
#include <string>

#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/index_peek.h"

namespace kiln {
namespace {

class Verification {
 public:
  Verification(const CallContext& context, ArtifactIndex& index, BlobStore& blobs,
               ArtifactIndex& remove_from, const VerificationCallback& callback)
      : context_(context),
        index_(index),
        blobs_(blobs),
        remove_from_(remove_from),
        callback_(callback) {}

  absl::StatusOr<VerificationProgress> Run() {
    std::optional<Digest> after;
    while (true) {
      KILN_ASSIGN_OR_RETURN(const auto page, index_.Scan(context_, after, limits::kListPageMax));
      if (page.empty()) break;
      for (const FoundArtifact& found : page) {
        KILN_RETURN_IF_ERROR(CheckCancelled());
        KILN_RETURN_IF_ERROR(Verify(*found.record));
        ++progress_.checked;
        callback_(progress_);
      }
      after = page.back().record->key;
    }
    progress_.done = true;
    callback_(progress_);
    return progress_;
  }

 private:
  absl::Status CheckCancelled() const {
    if (!context_.cancellation.IsCancelled()) return absl::OkStatus();
    return Cancelled("verification was cancelled after {} artifacts", progress_.checked);
  }

  absl::Status Verify(const ArtifactRecord& scanned) {
    KILN_ASSIGN_OR_RETURN(const auto damage, DamageOf(scanned));
    if (!damage) return absl::OkStatus();
    // Blobs leave with their record, so only an unchanged record is damaged.
    KILN_ASSIGN_OR_RETURN(const auto now, Peek(context_, index_, scanned.key));
    if (!now || *now->record != scanned) return absl::OkStatus();
    LogWarning("removed a damaged artifact", {{"key", scanned.key.Hex()}, {"damage", *damage}});
    progress_.damaged.push_back(scanned.key);
    const absl::Status removed = remove_from_.Remove(context_, scanned.key);
    if (removed.ok() || absl::IsNotFound(removed)) return absl::OkStatus();
    return Annotate(removed, fmt::format("remove the damaged {}", scanned.key.ShortHex()));
  }

  // Why a record's blobs are damaged; none: they are whole. An error: the store could not look.
  absl::StatusOr<std::optional<std::string>> DamageOf(const ArtifactRecord& record) {
    for (const StageReference& stage : record.stages) {
      const auto found = blobs_.Get(context_, stage.digest);
      if (absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status())) {
        return fmt::format("{}: {}", stage.stage, Message(found.status()));
      }
      if (!found.ok()) {
        return Annotate(found.status(), fmt::format("verify {}", record.key.ShortHex()));
      }
      const uint64_t size = found->blob.size_bytes();
      progress_.checked_bytes += size;
      if (size != stage.size_bytes) {
        return fmt::format("{}: {} bytes where the record says {}", stage.stage, size,
                           stage.size_bytes);
      }
    }
    return std::nullopt;
  }

  const CallContext& context_;
  ArtifactIndex& index_;
  BlobStore& blobs_;
  ArtifactIndex& remove_from_;
  const VerificationCallback& callback_;
  VerificationProgress progress_;
};

}  // namespace

absl::StatusOr<VerificationProgress> VerifyArtifacts(const CallContext& context,
                                                     ArtifactIndex& index, BlobStore& blobs,
                                                     ArtifactIndex& remove_from,
                                                     const VerificationCallback& callback) {
  return Verification(context, index, blobs, remove_from, callback).Run();
}

}  // namespace kiln
