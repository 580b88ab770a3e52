// How RocksDB is set up for kernels: a few hundred thousand keys, values of a few KB to a few MB.
#pragma once

#include <rocksdb/db.h>

#include <vector>

#include "storage/rocks/rocks_schema.h"

namespace kiln {

// `expected_bytes` sizes buffers and files, so that garbage and logs stay a fraction of a small
// store.
rocksdb::DBOptions RocksDatabaseOptions(uint64_t expected_bytes);
rocksdb::ColumnFamilyOptions RocksFamilyOptions(RocksFamily family, uint64_t expected_bytes);
// Names and options of all families.
std::vector<rocksdb::ColumnFamilyDescriptor> RocksFamilies(uint64_t expected_bytes);

// The size at which a blob file is closed. Garbage collection frees whole files.
uint64_t RocksBlobFileBytes(uint64_t expected_bytes);

}  // namespace kiln
