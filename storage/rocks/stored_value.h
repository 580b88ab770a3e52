// Values on the disk, compressed where that helps. Kiln compresses rather than RocksDB, so that the
// size limit counts exact sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// One byte of codec, eight bytes of raw size, then the bytes, raw or as one zstd frame.
std::string CompressValue(std::string_view raw);
// As CompressValue, by LZ4: a quarter larger than by zstd, read in a fifth of the time.
std::string CompressForHits(std::string_view raw);

// DATA_LOSS where neither of them wrote `stored`, or where the raw size exceeds
// `raw_bytes_max`: a damaged or forged value never costs more memory than that.
absl::StatusOr<std::string> DecompressValue(std::string_view stored, uint64_t raw_bytes_max);

}  // namespace kiln
