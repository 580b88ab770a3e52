// RocksDB's words in ours.
#pragma once

#include <rocksdb/status.h>

#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// DATA_LOSS: checksum mismatch, missing or unreadable file; nothing else says that the store is
// damaged. RESOURCE_EXHAUSTED: no space, memory or descriptors. PERMISSION_DENIED: the operating
// system refuses. UNAVAILABLE: try again. INTERNAL: the rest. REQUIRES: not OK.
absl::Status FromRocks(const rocksdb::Status& status, std::string_view what);

bool IsNoSpace(const rocksdb::Status& status);

}  // namespace kiln
