// Opens a store that may be rotten where nothing can go wrong: in a child process, against the
// clock.
#pragma once

#include <rocksdb/env.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "storage/base/status.h"
#include "storage/rocks/rocks_database.h"

namespace kiln {

// Does in the child all that the daemon does next: opens with that access, log and totals included,
// and closes.
//
// OK: it opens. DATA_LOSS: it is damaged, or opening it crashed, or took longer than `time_max` and
// then, tried once more, longer than twice that; it should be set aside. FAILED_PRECONDITION:
// written by a newer Kiln or by something else, and not written to. Anything else: could not look,
// which says nothing about the store.
//
// REQUIRES: the calling process has no other threads that could hold a lock while it forks (call it
// at start-up); `path` holds a database, and nobody, this process included, has it open or locked.
// `env` null: the operating system.
absl::Status ProbeRocksStore(const std::string& path, uint64_t expected_bytes,
                             std::chrono::milliseconds time_max, rocksdb::Env* env = nullptr,
                             RocksAccess access = RocksAccess::kWrite);

}  // namespace kiln
