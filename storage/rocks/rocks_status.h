// Translates RocksDB's statuses.
#pragma once

#include <rocksdb/status.h>

#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// DATA_LOSS: checksum mismatch, or missing or unreadable file. No other code means a damaged store.
// RESOURCE_EXHAUSTED: no space, memory or descriptors. PERMISSION_DENIED: the operating system
// refuses. UNAVAILABLE: try again. INTERNAL: the rest. REQUIRES: `status` is not OK.
absl::Status FromRocks(const rocksdb::Status& status, std::string_view what);

bool IsNoSpace(const rocksdb::Status& status);

}  // namespace kiln
