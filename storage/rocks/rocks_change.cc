#include "storage/rocks/rocks_change.h"

#include <algorithm>
#include <utility>

#include "storage/base/byte_codec.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

// Totals feed limits and displays only. After damage they may be wrong, but must not wrap.
void Subtract(uint64_t& total, uint64_t amount) { total -= std::min(total, amount); }

// Rows sort by time: the oldest is the first.
std::string QuarantineKey(const Digest& digest, int64_t now_unix_ms) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) {
    key.push_back(static_cast<char>(static_cast<uint64_t>(now_unix_ms) >> shift));
  }
  return key.append(digest.Bytes());
}

}  // namespace

RocksChange::RocksChange(RocksDatabase& database, const TotalsRow& totals)
    : database_(database), batch_(database), totals_(totals) {}

RocksChange::BlobChange& RocksChange::Load(const Digest& digest) {
  const auto [it, is_new] = blobs_.try_emplace(digest);
  if (!is_new) return it->second;
  const auto row = database_.Get(RocksFamily::kReferences, digest.Bytes());
  // A damaged row counts as absent: the blob is written again, and at worst removed too early,
  // which is a miss.
  if (!row.ok()) {
    LogWarning("a reference count is damaged",
               {{"digest", digest.Hex()}, {"error", Message(row.status())}});
  } else if (row->has_value()) {
    it->second.row = DecodeReferences(**row).value_or(ReferenceRow());
  }
  return it->second;
}

void RocksChange::Offer(const Digest& digest, std::string stored) {
  Load(digest).offered = std::move(stored);
}

void RocksChange::PutRecord(const ArtifactRecord& record, std::string_view encoded,
                            std::optional<uint64_t> replaced_row_bytes) {
  batch_.Put(RocksFamily::kArtifacts, record.key.Bytes(), encoded);
  if (replaced_row_bytes) {
    Subtract(totals_.stored_bytes, *replaced_row_bytes);
  } else {
    ++totals_.artifacts;
  }
  totals_.stored_bytes += RowBytes(encoded);
}

void RocksChange::RemoveRecord(const Digest& key, uint64_t row_bytes) {
  batch_.Delete(RocksFamily::kArtifacts, key.Bytes());
  batch_.Delete(RocksFamily::kAccess, key.Bytes());
  Subtract(totals_.stored_bytes, row_bytes);
  Subtract(totals_.artifacts, 1);
}

void RocksChange::PutUsage(const Digest& key, const ArtifactUsage& usage) {
  batch_.Put(RocksFamily::kAccess, key.Bytes(), EncodeUsage(usage));
}

void RocksChange::Claim(const ArtifactRecord& record) {
  for (const StageReference& stage : record.stages) ++Load(stage.digest).claims;
}

void RocksChange::Release(const ArtifactRecord& record) {
  for (const StageReference& stage : record.stages) --Load(stage.digest).claims;
}

void RocksChange::QuarantineBlob(const Digest& digest, std::string_view reason,
                                 int64_t now_unix_ms) {
  Load(digest).is_damaged = true;
  Quarantine(digest, "blob", reason, RowOf(RocksFamily::kBlobs, digest), now_unix_ms);
}

void RocksChange::QuarantineRecord(const Digest& key, std::string_view reason,
                                   int64_t now_unix_ms) {
  const std::string row = RowOf(RocksFamily::kArtifacts, key);
  RemoveRecord(key, RowBytes(row));
  // The names of the record's blobs are lost, so CollectUnreferencedBlobs counts anew.
  totals_.references_are_high = true;
  Quarantine(key, "record", reason, row, now_unix_ms);
}

std::string RocksChange::RowOf(RocksFamily family, const Digest& digest) const {
  const auto row = database_.Get(family, digest.Bytes());
  return row.ok() ? row->value_or("") : "";
}

void RocksChange::Quarantine(const Digest& digest, std::string_view kind, std::string_view reason,
                             std::string_view value, int64_t now_unix_ms) {
  LogWarning("quarantined a damaged value",
             {{"kind", kind}, {"digest", digest.Hex()}, {"reason", reason}});
  ++totals_.quarantined;
  ByteWriter writer;
  writer.String(kind);
  writer.String(reason);
  writer.String(value.substr(0, limits::kQuarantinedValueBytesMax));
  batch_.Put(RocksFamily::kQuarantine, QuarantineKey(digest, now_unix_ms), writer.bytes());

  const auto rows = database_.Iterate(RocksFamily::kQuarantine);
  size_t kept = 1;
  for (rows->SeekToLast(); rows->Valid(); rows->Prev()) {
    if (++kept > limits::kQuarantinedMax) {
      batch_.Delete(RocksFamily::kQuarantine, rows->key().ToStringView());
    }
  }
}

absl::Status RocksChange::Apply(const Digest& digest, const BlobChange& change) {
  if (change.IsNone()) return absl::OkStatus();
  ReferenceRow row = change.row;
  const int64_t count = change.correct_count.value_or(row.count) + change.claims;
  row.count = static_cast<uint32_t>(std::max<int64_t>(0, count));
  const bool is_held = row.stored_bytes > 0;
  if (change.is_damaged || (is_held && row.count == 0)) {
    batch_.Delete(RocksFamily::kBlobs, digest.Bytes());
    Subtract(totals_.stored_bytes, row.stored_bytes);
    row.stored_bytes = 0;
    has_freed_blobs_ = true;
  } else if (!is_held && row.count > 0 && change.offered) {
    batch_.Put(RocksFamily::kBlobs, digest.Bytes(), *change.offered);
    row.stored_bytes = RowBytes(*change.offered);
    totals_.stored_bytes += row.stored_bytes;
  }
  if (change.claims > 0 && row.stored_bytes == 0) {
    return InvalidArgument("the artifact names blob {}, which is neither stored nor given",
                           digest.Hex());
  }
  if (row.count > 0) {
    batch_.Put(RocksFamily::kReferences, digest.Bytes(), EncodeReferences(row));
  } else {
    batch_.Delete(RocksFamily::kReferences, digest.Bytes());
  }
  return absl::OkStatus();
}

absl::Status RocksChange::Commit() {
  for (const auto& [digest, change] : blobs_) KILN_RETURN_IF_ERROR(Apply(digest, change));
  batch_.Put(RocksFamily::kMeta, kTotalsRow, EncodeTotals(totals_));
  return database_.Write(batch_);
}

}  // namespace kiln
