#include "storage/rocks/rocks_store.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/base/mutex.h"
#include "storage/rocks/record_codec.h"
#include "storage/rocks/rocks_walk.h"
#include "storage/rocks/stored_value.h"

namespace kiln {
namespace {

absl::Status NoArtifact(const Digest& key) { return NotFound("no artifact {}", key.Hex()); }

absl::Status CheckSizes(std::span<const Blob> blobs) {
  for (const Blob& blob : blobs) {
    if (blob.size_bytes() > limits::kBlobBytesMax) {
      return InvalidArgument("a blob of {} bytes, the limit is {}", blob.size_bytes(),
                             limits::kBlobBytesMax);
    }
  }
  return absl::OkStatus();
}

}  // namespace

RocksStore::RocksStore(std::unique_ptr<RocksDatabase> database, const TotalsRow& totals,
                       std::string path, uint64_t expected_bytes, Filesystem& filesystem,
                       const Clock& clock)
    : database_(std::move(database)),
      path_(std::move(path)),
      filesystem_(filesystem),
      clock_(clock),
      uses_(clock),
      totals_(totals),
      reclaimer_(*database_, expected_bytes) {
  if (database_->access() == RocksAccess::kWrite) reclaimer_.Consider(totals.stored_bytes);
}

absl::StatusOr<std::unique_ptr<RocksStore>> RocksStore::Load(
    std::unique_ptr<RocksDatabase> database, std::string path, uint64_t expected_bytes,
    Filesystem& filesystem, const Clock& clock) {
  KILN_ASSIGN_OR_RETURN(const TotalsRow totals, ReadTotals(*database));
  return std::unique_ptr<RocksStore>(new RocksStore(std::move(database), totals, std::move(path),
                                                    expected_bytes, filesystem, clock));
}

RocksStore::~RocksStore() { WriteUses(); }

void RocksStore::WaitUntilIdle() {
  use_writer_.WaitUntilIdle();
  reclaimer_.WaitUntilIdle();
}

StoreStats RocksStore::Stats() const {
  const TotalsRow totals = Totals();
  StoreStats stats;
  stats.artifacts = totals.artifacts;
  stats.stored_bytes = totals.stored_bytes;
  stats.quarantined = totals.quarantined;
  stats.free_disk_bytes = filesystem_.FreeBytes(path_).value_or(0);
  stats.disk_bytes = database_->FileBytes();
  stats.degraded = database_->Degraded();
  return stats;
}

// --- Blobs ---

absl::StatusOr<Blob> RocksStore::ReadBlob(const Digest& digest) const {
  KILN_ASSIGN_OR_RETURN(const auto row, database_->Get(RocksFamily::kBlobs, digest.Bytes()));
  if (!row) return NotFound("no blob {}", digest.Hex());
  KILN_ASSIGN_OR_RETURN(std::string raw, DecompressValue(*row, limits::kBlobBytesMax));
  return Blob::Verify(std::move(raw), digest);
}

absl::StatusOr<FoundBlob> RocksStore::GetBlob(const CallContext&, const Digest& digest) {
  auto blob = ReadBlob(digest);
  if (blob.ok()) return FoundBlob{*std::move(blob), Tier::kDisk};
  if (absl::IsDataLoss(blob.status())) QuarantineBlob(digest);
  if (!absl::IsNotFound(blob.status())) return blob.status();
  // After a loss of part of the log the references may claim a blob that is gone, and a put would
  // not write it again.
  if (HoldsBlob(digest).value_or(false)) QuarantineBlob(digest);
  return blob.status();
}

void RocksStore::QuarantineBlob(const Digest& digest) {
  MutexLock lock(writer_);
  // Reads again under the lock: the blob may have been replaced meanwhile.
  const auto blob = ReadBlob(digest);
  if (blob.ok()) return;
  RocksChange change(*database_, Totals());
  if (!change.IsHeld(digest) && absl::IsNotFound(blob.status())) return;
  change.QuarantineBlob(digest, Message(blob.status()), clock_.UnixMillis());
  const absl::Status status = Commit(change);
  if (!status.ok()) LogWarning("quarantine failed", {{"error", Message(status)}});
}

absl::StatusOr<bool> RocksStore::HoldsBlob(const Digest& digest) const {
  KILN_ASSIGN_OR_RETURN(const auto row, database_->Get(RocksFamily::kReferences, digest.Bytes()));
  const auto references = row ? DecodeReferences(*row) : std::nullopt;
  return references && references->stored_bytes > 0;
}

absl::StatusOr<std::vector<Digest>> RocksStore::FindMissing(const CallContext&,
                                                            std::span<const Digest> digests) {
  std::vector<Digest> missing;
  for (const Digest& digest : digests) {
    KILN_ASSIGN_OR_RETURN(const bool is_held, HoldsBlob(digest));
    if (!is_held) missing.push_back(digest);
  }
  return missing;
}

// --- Records ---

absl::StatusOr<RocksStore::RecordRow> RocksStore::ReadRecord(const Digest& key) const {
  KILN_ASSIGN_OR_RETURN(const auto row, database_->Get(RocksFamily::kArtifacts, key.Bytes()));
  if (!row) return NoArtifact(key);
  std::optional<Blob> binary;
  KILN_ASSIGN_OR_RETURN(ArtifactRecord record, DecodeRecordRow(*row, key, &binary));
  return RecordRow{std::move(record), std::move(binary), RowBytes(*row)};
}

ArtifactUsage RocksStore::ReadUsage(const Digest& key) const {
  ArtifactUsage usage;
  const auto row = database_->Get(RocksFamily::kAccess, key.Bytes());
  // A damaged row loses uses and at worst a pin. The artifact is still right.
  if (row.ok() && row->has_value()) usage = DecodeUsage(**row).value_or(usage);
  AddPendingUses(key, usage);
  return usage;
}

void RocksStore::AddPendingUses(const Digest& key, ArtifactUsage& usage) const {
  const MutexLock lock(uses_mutex_);
  const UseCount pending = uses_.Pending(key);
  usage.hits += pending.uses;
  usage.last_use_unix_ms = std::max(usage.last_use_unix_ms, pending.last_use_unix_ms);
}

void RocksStore::ForgetUses(const Digest& key) {
  const MutexLock lock(uses_mutex_);
  uses_.Forget(key);
}

absl::StatusOr<FoundArtifact> RocksStore::Get(const CallContext& context, const Digest& key) {
  auto row = ReadRecord(key);
  if (absl::IsDataLoss(row.status())) QuarantineRecord(key);
  if (!row.ok()) return row.status();
  const UseCount use{key, UsesOfHit(context), clock_.UnixMillis()};
  CountUses({&use, 1});
  return FoundArtifact{std::make_shared<const ArtifactRecord>(std::move(row->record)),
                       {},
                       Tier::kDisk,
                       std::move(row->binary)};
}

void RocksStore::QuarantineRecord(const Digest& key) {
  MutexLock lock(writer_);
  const auto row = ReadRecord(key);
  if (!absl::IsDataLoss(row.status())) return;
  RocksChange change(*database_, Totals());
  change.QuarantineRecord(key, Message(row.status()), clock_.UnixMillis());
  const absl::Status status = Commit(change);
  if (!status.ok()) LogWarning("quarantine failed", {{"error", Message(status)}});
}

absl::StatusOr<std::optional<RocksStore::RecordRow>> RocksStore::Replaced(RocksChange& change,
                                                                          const Digest& key) {
  auto row = ReadRecord(key);
  if (row.ok()) {
    change.Release(row->record);
    return std::optional<RecordRow>(*std::move(row));
  }
  if (absl::IsDataLoss(row.status())) {
    change.QuarantineRecord(key, Message(row.status()), clock_.UnixMillis());
    return std::nullopt;
  }
  if (absl::IsNotFound(row.status())) return std::nullopt;
  return row.status();
}

absl::Status RocksStore::Put(const CallContext& context, const ArtifactRecord& record,
                             std::span<const Blob> blobs) {
  KILN_RETURN_IF_ERROR(CheckSizes(blobs));
  const Blob* const binary = FindFinalBinary(record, blobs);
  const bool is_inlined = binary != nullptr && binary->size_bytes() <= kInlinedBinaryBytesMax;
  KILN_ASSIGN_OR_RETURN(const std::string encoded,
                        EncodeRecord(record, is_inlined ? binary->bytes() : ""));
  const std::string row = CompressForHits(encoded);
  // Compresses missing blobs without the lock. The decision is repeated under the lock.
  std::unordered_map<Digest, std::string, DigestHash> compressed;
  for (const Blob& blob : blobs) {
    if (!HoldsBlob(blob.digest()).value_or(false)) {
      compressed.emplace(blob.digest(), CompressValue(blob.bytes()));
    }
  }

  reclaimer_.WaitForSpace();
  MutexLock lock(writer_);
  RocksChange change(*database_, Totals());
  for (const Blob& blob : blobs) {
    const auto ready = compressed.find(blob.digest());
    if (change.IsHeld(blob.digest())) continue;
    change.Offer(blob.digest(),
                 ready != compressed.end() ? ready->second : CompressValue(blob.bytes()));
  }
  KILN_ASSIGN_OR_RETURN(const auto replaced, Replaced(change, record.key));
  change.Claim(record);
  change.PutRecord(record, row, replaced ? std::optional(replaced->row_bytes) : std::nullopt);
  if (!replaced) {
    ForgetUses(record.key);
    ArtifactUsage usage = FirstUsage(context, record);
    usage.last_use_unix_ms = clock_.UnixMillis();
    change.PutUsage(record.key, usage);
  }
  return Commit(change);
}

absl::Status RocksStore::Remove(const CallContext&, const Digest& key) {
  MutexLock lock(writer_);
  RocksChange change(*database_, Totals());
  KILN_ASSIGN_OR_RETURN(const auto replaced, Replaced(change, key));
  if (replaced) change.RemoveRecord(key, replaced->row_bytes);
  KILN_RETURN_IF_ERROR(Commit(change));
  ForgetUses(key);
  return replaced ? absl::OkStatus() : NoArtifact(key);
}

absl::StatusOr<std::vector<FoundArtifact>> RocksStore::Scan(const CallContext&,
                                                            const std::optional<Digest>& after,
                                                            size_t limit) {
  std::vector<FoundArtifact> found;
  std::vector<Digest> damaged;
  const std::string from = after ? std::string(after->Bytes()) : std::string();
  for (RocksWalk rows(database_->Iterate(RocksFamily::kArtifacts), from);
       rows.Valid() && found.size() < limit; rows.Next()) {
    if (rows.key() == from) continue;
    const auto key = Digest::FromBytes(rows.key());
    if (!key.ok()) continue;
    auto record = DecodeRecordRow(rows.value(), *key);
    if (!record.ok()) {
      damaged.push_back(*key);
      continue;
    }
    found.push_back(
        {std::make_shared<const ArtifactRecord>(*std::move(record)), ReadUsage(*key), Tier::kDisk});
  }
  for (const Digest& key : damaged) QuarantineRecord(key);
  return found;
}

absl::StatusOr<std::vector<FoundUsage>> RocksStore::ScanUsages(const CallContext&,
                                                               const std::optional<Digest>& after,
                                                               size_t limit) {
  std::vector<FoundUsage> found;
  found.reserve(limit);
  const std::string from = after ? std::string(after->Bytes()) : std::string();
  for (RocksWalk rows(database_->Iterate(RocksFamily::kAccess), from);
       rows.Valid() && found.size() < limit; rows.Next()) {
    if (rows.key() == from) continue;
    const auto key = Digest::FromBytes(rows.key());
    if (!key.ok()) continue;
    // As ReadUsage does with a damaged row.
    found.push_back({*key, DecodeUsage(rows.value()).value_or(ArtifactUsage())});
    AddPendingUses(*key, found.back().usage);
  }
  return found;
}

absl::Status RocksStore::SetPinned(const CallContext&, const Digest& key, bool pinned) {
  const absl::Status readable = ReadRecord(key).status();
  if (absl::IsDataLoss(readable)) QuarantineRecord(key);
  KILN_RETURN_IF_ERROR(readable);

  MutexLock lock(writer_);
  // Reads again: a pin without a record would outlive the record.
  KILN_RETURN_IF_ERROR(ReadRecord(key).status());
  ArtifactUsage usage = ReadUsage(key);
  usage.pinned = pinned;
  RocksChange change(*database_, Totals());
  change.PutUsage(key, usage);
  KILN_RETURN_IF_ERROR(Commit(change));
  // The pending uses are part of the written row.
  ForgetUses(key);
  return absl::OkStatus();
}

// --- Books ---

TotalsRow RocksStore::Totals() const {
  MutexLock lock(totals_mutex_);
  return totals_;
}

absl::Status RocksStore::Commit(RocksChange& change) {
  KILN_RETURN_IF_ERROR(change.Commit());
  {
    MutexLock lock(totals_mutex_);
    totals_ = change.totals();
  }
  if (change.HasFreedBlobs()) reclaimer_.Consider(change.totals().stored_bytes);
  return absl::OkStatus();
}

void RocksStore::CountUses(std::span<const UseCount> uses) {
  bool is_due = false;
  {
    const MutexLock lock(uses_mutex_);
    for (const UseCount& use : uses) is_due = uses_.Add(use) || is_due;
  }
  if (is_due) use_writer_.Request();
}

void RocksStore::WriteUses() {
  MutexLock lock(writer_);
  MutexLock uses_lock(uses_mutex_);
  const std::vector<UseCount> uses = uses_.Drain();
  uses_lock.Unlock();
  if (uses.empty()) return;
  RocksChange change(*database_, Totals());
  for (const UseCount& use : uses) {
    const auto row = database_->Get(RocksFamily::kAccess, use.key.Bytes());
    // No row: the store does not have the artifact.
    if (!row.ok() || !row->has_value()) continue;
    ArtifactUsage usage = DecodeUsage(**row).value_or(ArtifactUsage());
    usage.hits += use.uses;
    usage.last_use_unix_ms = std::max(usage.last_use_unix_ms, use.last_use_unix_ms);
    change.PutUsage(use.key, usage);
  }
  const absl::Status status = Commit(change);
  if (!status.ok()) LogDebug("uses were not written", {{"error", Message(status)}});
}

absl::StatusOr<uint64_t> RocksStore::CollectUnreferencedBlobs(const CallContext&) {
  MutexLock lock(writer_);
  TotalsRow totals = Totals();
  if (!totals.references_are_high) return 0;
  totals.references_are_high = false;
  std::unordered_map<Digest, uint32_t, DigestHash> counts;
  for (RocksWalk rows(database_->Iterate(RocksFamily::kArtifacts)); rows.Valid(); rows.Next()) {
    const auto key = Digest::FromBytes(rows.key());
    const auto record = key.ok() ? DecodeRecordRow(rows.value(), *key) : key.status();
    if (!record.ok()) continue;
    for (const StageReference& stage : record->stages) ++counts[stage.digest];
  }
  uint64_t collected = 0;
  RocksChange change(*database_, totals);
  for (RocksWalk rows(database_->Iterate(RocksFamily::kReferences)); rows.Valid(); rows.Next()) {
    const auto digest = Digest::FromBytes(rows.key());
    const auto row = DecodeReferences(rows.value());
    if (!digest.ok() || !row) continue;
    const auto counted = counts.find(*digest);
    const uint32_t count = counted == counts.end() ? 0 : counted->second;
    if (count == 0 && row->stored_bytes > 0) ++collected;
    if (count == 0 || row->count != count) change.CorrectCount(*digest, count);
  }
  KILN_RETURN_IF_ERROR(Commit(change));
  return collected;
}

absl::StatusOr<TotalsRow> RocksStore::ReadTotals(RocksDatabase& database) {
  const auto row = database.Get(RocksFamily::kMeta, kTotalsRow);
  if (row.ok() && row->has_value()) {
    if (const auto read = DecodeTotals(**row)) return *read;
  }
  TotalsRow totals;
  for (RocksWalk rows(database.Iterate(RocksFamily::kArtifacts)); rows.Valid(); rows.Next()) {
    ++totals.artifacts;
    totals.stored_bytes += RowBytes(rows.value());
  }
  for (RocksWalk rows(database.Iterate(RocksFamily::kReferences)); rows.Valid(); rows.Next()) {
    totals.stored_bytes += DecodeReferences(rows.value()).value_or(ReferenceRow()).stored_bytes;
  }
  RocksChange change(database, totals);
  KILN_RETURN_IF_ERROR(change.Commit());
  return totals;
}

}  // namespace kiln
