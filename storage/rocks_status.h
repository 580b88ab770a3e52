// RocksDB's words in ours.
#pragma once

#include <rocksdb/status.h>

#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// RESOURCE_EXHAUSTED: no space. DATA_LOSS: checksum mismatch, missing or unreadable file.
// UNAVAILABLE: try again. INTERNAL: the rest. REQUIRES: not OK.
absl::Status FromRocks(const rocksdb::Status& status, std::string_view what);

bool IsNoSpace(const rocksdb::Status& status);

}  // namespace kiln
