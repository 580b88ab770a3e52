// Sends RocksDB's log lines to the daemon's log.
#pragma once

#include <rocksdb/env.h>

#include <memory>

namespace kiln {

// Replaces RocksDB's own logger: Debian builds RocksDB with assertions, and that logger ends the
// process on the first line after a full disk. RocksDB's warnings are routine and become debug
// lines. Thread-safe.
std::shared_ptr<rocksdb::Logger> MakeRocksLogger();

}  // namespace kiln
