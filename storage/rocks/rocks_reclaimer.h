// Gives back the disk space of removed blobs. RocksDB rewrites a blob file only when its
// compactions come across it, which for a store that evicts as fast as it fills is far too late:
// files would grow to many times the limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "storage/base/mutex.h"
#include "storage/rocks/rocks_database.h"

namespace kiln {

// Owns a thread that sleeps until garbage makes up a fifth of the expected size, then rewrites the
// oldest of the blob files, where most of the garbage is. So the files stay below 1.3 times the
// limit, and below 1.8 times while it works.
//
// Thread-safe. The destructor stops the work under way.
class RocksReclaimer {
 public:
  // `database` must outlive the reclaimer.
  RocksReclaimer(RocksDatabase& database, uint64_t expected_bytes);
  ~RocksReclaimer();

  // Says how many bytes are live now that something was removed. Cheap; does not wait for the work.
  void Consider(uint64_t live_bytes);

  // Before something is stored: waits where removals have outrun the work under way. In practice
  // only a store with a tiny limit ever waits.
  void WaitForSpace();
  void WaitUntilIdle();

 private:
  void Run();
  uint64_t GarbageBytes() const;

  RocksDatabase& database_;
  const uint64_t garbage_bytes_max_;
  std::atomic<uint64_t> live_bytes_ = 0;
  std::atomic<bool> stopping_ = false;

  Mutex mutex_;
  CondVar changed_;
  bool is_due_ KILN_GUARDED_BY(mutex_) = false;
  bool is_working_ KILN_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace kiln
