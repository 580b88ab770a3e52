// Opens a store that may be damaged in a child process, with a time limit.
#pragma once

#include <rocksdb/env.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "storage/base/status.h"
#include "storage/rocks/rocks_database.h"

namespace kiln {

// How long a child process may take, and what ends it before.
struct ChildBounds {
  std::chrono::milliseconds time_max;
  // Readable once the daemon is asked to stop: the child is killed. -1: never.
  int stop_fd = -1;
};

// Runs `work` in a child process and returns its status.
//   DATA_LOSS          it crashed
//   DEADLINE_EXCEEDED  it took too long and was killed
//   CANCELLED          `stop_fd` became readable
//   UNAVAILABLE        it was killed from outside
// REQUIRES: the process has no other threads.
absl::Status RunInChild(const ChildBounds& bounds, const std::function<absl::Status()>& work);

// The child opens the store with `access`, reads log and totals, and closes it, as the daemon does
// next.
//
//   OK                   the store opens
//   DATA_LOSS            the store should be set aside: it is damaged, or the open crashed, or took
//                        longer than `bounds.time_max` and, tried once more, longer than twice that
//   FAILED_PRECONDITION  another program or a newer Kiln wrote the store; it is left unchanged
//   anything else        the child could not look, so the store may be whole
//
// `env` null: the operating system.
// REQUIRES: the process has no other threads (call it at start-up). `path` holds a database that no
// process, this one included, has open or locked.
absl::Status ProbeRocksStore(const std::string& path, uint64_t expected_bytes,
                             const ChildBounds& bounds, rocksdb::Env* env = nullptr,
                             RocksAccess access = RocksAccess::kWrite);

}  // namespace kiln
