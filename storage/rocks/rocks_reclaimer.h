// Gives back the disk space of removed blobs. RocksDB rewrites a blob file only when a compaction
// comes across the file. In a store that evicts as fast as it fills that is too late: files would
// grow to many times the limit.
#pragma once

#include <atomic>
#include <cstdint>

#include "storage/background_task.h"
#include "storage/rocks/rocks_database.h"

namespace kiln {

// Once garbage makes up a fifth of the expected size, rewrites the oldest blob files, where most of
// the garbage is, on a thread of its own. The files stay below 1.3 times the limit, and below 1.8
// times during the work: puts wait where the disk falls behind.
//
// Thread-safe. The destructor stops the work under way.
class RocksReclaimer {
 public:
  // `database` must outlive the reclaimer.
  RocksReclaimer(RocksDatabase& database, uint64_t expected_bytes);
  ~RocksReclaimer() { stopping_ = true; }

  // Call after a removal with the number of live bytes. Cheap; does not wait for the work.
  void Consider(uint64_t live_bytes);

  // Call before storing: waits where removals have outrun the work, as in a burst of puts into a
  // full store on a slow disk.
  void WaitForSpace();
  void WaitUntilIdle() { work_.WaitUntilIdle(); }

 private:
  void Reclaim();
  uint64_t GarbageBytes() const;

  RocksDatabase& database_;
  const uint64_t garbage_bytes_max_;
  std::atomic<uint64_t> live_bytes_ = 0;
  std::atomic<bool> stopping_ = false;
  BackgroundTask work_{{[this](const auto&) { Reclaim(); }}};
};

}  // namespace kiln
