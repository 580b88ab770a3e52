// Opens the store on the disk, whatever state it is in.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/store.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace kiln {

struct RocksStoreOptions {
  // Made where it is missing; its parent must be there.
  std::string path;
  // The size limit that the store will be kept to: sizes buffers and files.
  uint64_t expected_bytes = limits::kStoreBytesDefault;
  // A store that takes longer to open, and twice as long when tried once more, counts as damaged.
  std::chrono::milliseconds open_time_max = limits::kStoreOpenTime;
  // On a disk that is full: between one attempt to open the store and the next.
  std::chrono::milliseconds retry_interval = limits::kStoreRetryInterval;
  // Null: the operating system. Must outlive the store.
  rocksdb::Env* env = nullptr;
};

struct StoreOpenReport {
  // Where a damaged store was moved to; empty: there was none. It is never deleted.
  std::string set_aside;
  // What was wrong with it.
  std::string damage;
  // Nothing was there, or what was there was set aside.
  bool is_new = false;
  // Why nothing can be stored yet, for a person; empty: it can.
  std::string waits_because;
};

struct OpenedRocksStore {
  // A RocksStore, or one that waits for it.
  std::unique_ptr<Store> store;
  StoreOpenReport report;
};

// On a full disk it is opened all the same: what can be read of it is, puts are refused, and it is
// tried again in the background until there is space (WaitingStore). Nothing is set aside then.
//
// A damaged store is renamed to `<path>.damaged-<unix ms>` and a new one is made. Not so where
// nothing can be said about the store, or where it is not ours to touch:
//   FAILED_PRECONDITION  `path` is no directory, belongs to another user, is in use by another
//                        process, or was written by a newer Kiln (the message names both versions)
//   PERMISSION_DENIED    it cannot be written, or cannot be renamed
//   RESOURCE_EXHAUSTED   there is no memory or no descriptor left
//   UNAVAILABLE          the process that probed it was killed from outside
// Each message says what to do. `filesystem` and `clock` must outlive the store.
//
// Opens the store in a child process first (rocks_probe.h).
// REQUIRES: called before the process starts threads.
absl::StatusOr<OpenedRocksStore> OpenRocksStore(const RocksStoreOptions& options,
                                                Filesystem& filesystem, const Clock& clock);

}  // namespace kiln
