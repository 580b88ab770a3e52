#include "storage/rocks/rocks_recount.h"

#include <algorithm>
#include <utility>

#include "storage/rocks/rocks_schema.h"
#include "storage/rocks/rocks_walk.h"

namespace kiln {

RocksRecount::RocksRecount(const RocksDatabase& database, uint32_t part, uint32_t parts)
    : part_(part), parts_(parts), records_(database.Iterate(RocksFamily::kArtifacts)) {}

bool RocksRecount::Covers(const Digest& digest) const {
  return static_cast<uint8_t>(digest.Bytes()[0]) % parts_ == part_;
}

void RocksRecount::CountRecords() {
  for (RocksWalk rows(std::move(records_)); rows.Valid(); rows.Next()) {
    const auto key = Digest::FromBytes(rows.key());
    const auto record = key.ok() ? DecodeRecordRow(rows.value(), *key) : key.status();
    if (!record.ok()) continue;
    for (const StageReference& stage : record->stages) {
      if (Covers(stage.digest)) ++counted_[stage.digest];
    }
  }
}

void RocksRecount::AddClaims(const RocksChange& change) {
  change.ForEachClaim([this](const Digest& digest, int64_t claims) {
    if (Covers(digest)) claims_[digest] += claims;
  });
}

uint32_t RocksRecount::CountOf(const Digest& digest) const {
  int64_t count = 0;
  for (const Counts* counts : {&counted_, &claims_}) {
    const auto found = counts->find(digest);
    if (found != counts->end()) count += found->second;
  }
  return static_cast<uint32_t>(std::max<int64_t>(0, count));
}

}  // namespace kiln
