// RocksDB's own log lines, in ours.
#pragma once

#include <rocksdb/env.h>

#include <memory>

namespace kiln {

// Never writes into the store's directory: Debian's RocksDB is built with assertions, and its own
// logger fails one, which ends the process, on the first line after one that met a full disk. What
// RocksDB calls a warning is routine and goes to our debug level. Thread-safe.
std::shared_ptr<rocksdb::Logger> MakeRocksLogger();

}  // namespace kiln
