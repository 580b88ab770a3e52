// Counting references anew while records come and go.
#pragma once

#include <rocksdb/iterator.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "storage/base/digest.h"
#include "storage/rocks/rocks_change.h"
#include "storage/rocks/rocks_database.h"

namespace kiln {

// A record that is lost to damage takes the names of its blobs with it: their counts are too high
// from then on, and nothing would ever collect them. Counting reads every record, which in a large
// store takes minutes, and nobody may wait for the writer's lock that long. So what is counted is
// the records as they were at one moment, which is all that an iterator of RocksDB's sees, and what
// was claimed and released since then is added. At any time that the lock is held, that is exact.
//
// Thread-safe as its methods say.
class RocksRecount {
 public:
  // Counts the digests of one part of `parts`, so that a million artifacts do not need a gigabyte.
  // REQUIRES: the writer's lock is held, so that this is one moment. Reads nothing yet.
  RocksRecount(const RocksDatabase& database, uint32_t part, uint32_t parts);

  // Reads the records of that moment. Call once, without the lock.
  void CountRecords();
  // Whether a digest is of this part.
  bool Covers(const Digest& digest) const;

  // Told of every change since, once it is committed. REQUIRES: the writer's lock is held.
  void AddClaims(const RocksChange& change);
  // How many stages of records name a blob now. REQUIRES: the writer's lock is held, and
  // CountRecords has returned.
  uint32_t CountOf(const Digest& digest) const;

 private:
  using Counts = std::unordered_map<Digest, int64_t, DigestHash>;

  const uint32_t part_;
  const uint32_t parts_;
  std::unique_ptr<rocksdb::Iterator> records_;
  Counts counted_;
  Counts claims_;
};

}  // namespace kiln
