// Opens the store on the disk, in any state.
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
  // Created where it is missing. Its parent must exist.
  std::string path;
  // The store's size limit. Determines the size of buffers and files.
  uint64_t expected_bytes = limits::kStoreBytesDefault;
  // A store that takes longer to open, and twice as long on a second try, counts as damaged.
  std::chrono::milliseconds open_time_max = limits::kStoreOpenTime;
  // The time between two attempts to open the store on a full disk.
  std::chrono::milliseconds retry_interval = limits::kStoreRetryInterval;
  // Readable once the daemon is asked to stop. -1: never.
  int stop_fd = -1;
  // Null: the operating system. Must outlive the store.
  rocksdb::Env* env = nullptr;
};

struct StoreOpenReport {
  // The new path of a damaged store, which is never deleted. Empty: no store was damaged.
  std::string set_aside;
  // Why the store counts as damaged.
  std::string damage;
  // There was no store, or nothing of it could be kept.
  bool is_new = false;
  // Why the store takes nothing yet, for people. Empty: it takes artifacts.
  std::string waits_because;
};

struct OpenedRocksStore {
  // A RocksStore, or a WaitingStore for one.
  std::unique_ptr<Store> store;
  StoreOpenReport report;
};

// On a full disk the store opens for reading: puts fail, and a thread tries to open it for writing
// until there is space (WaitingStore). Nothing is set aside then.
//
// Renames a damaged store to `<path>.damaged-<unix ms>` and creates a new one of what is whole
// (rocks_salvage.h). Returns an error, and leaves the store alone, where it may be whole or belongs
// to somebody else:
//   FAILED_PRECONDITION  `path` is no directory, belongs to another user, is in use by another
//                        process, or was written by a newer Kiln (the message names both versions)
//   PERMISSION_DENIED    the store cannot be written or renamed
//   RESOURCE_EXHAUSTED   there is no memory or no descriptor left
//   UNAVAILABLE          the probing process was killed from outside
//   CANCELLED            `stop_fd` became readable
// Each message tells people what to do. `filesystem` and `clock` must outlive the store.
//
// Opens the store in a child process first (rocks_probe.h).
// REQUIRES: called before the process starts threads.
absl::StatusOr<OpenedRocksStore> OpenRocksStore(const RocksStoreOptions& options,
                                                Filesystem& filesystem, const Clock& clock);

}  // namespace kiln
