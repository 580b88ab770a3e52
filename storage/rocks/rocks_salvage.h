// Keeps what is whole of a damaged store.
#pragma once

#include <rocksdb/env.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "storage/base/limits.h"
#include "storage/base/status.h"

namespace kiln {

// Makes the store `to` of the whole parts of the damaged store `from`. `from` stays as it is: its
// files are never written again, so both directories name the same ones (hard links). Leaves out
// tables that are missing or damaged, and damaged places of the log. A lost CURRENT names the
// newest manifest. Counts references and totals anew.
//
// Where RocksDB marked `from` (kDamagedMarker), reads every blob, too: one that cannot be read
// would stop the next compaction again. Stops reading after `reading_time_max`, since a slow disk
// would otherwise cost the whole store. Otherwise the cost is that of reading all tables, not all
// blobs.
//
// An error: `to` is of no use. May crash or hang on damage: call it in a child process.
// REQUIRES: `to` does not exist. `env` null: the operating system.
absl::Status SalvageRocksStore(const std::string& from, const std::string& to,
                               uint64_t expected_bytes, rocksdb::Env* env = nullptr,
                               std::chrono::milliseconds reading_time_max = limits::kStoreOpenTime /
                                                                            2);

}  // namespace kiln
