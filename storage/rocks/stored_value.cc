#include "storage/rocks/stored_value.h"

#include <lz4.h>
#include <lz4hc.h>
#include <zstd.h>

#include <algorithm>

#include "storage/base/byte_codec.h"
#include "storage/base/zstd_contexts.h"

namespace kiln {
namespace {

enum class Codec : uint8_t { kRaw = 0, kZstd = 1, kLz4 = 2 };

// Below this size the frame's header costs more than compression saves.
constexpr size_t kCompressedFrom = 64;
// 3 is zstd's default; 9 saves 4 % more on PTX and costs five times the time.
constexpr int kLevel = 3;

std::string Frame(Codec codec, size_t raw_size, std::string_view payload) {
  ByteWriter writer;
  writer.Number(static_cast<uint8_t>(codec));
  writer.Number(static_cast<uint64_t>(raw_size));
  writer.Raw(payload);
  return writer.Take();
}

absl::StatusOr<std::string> DecompressFrame(std::string_view frame, uint64_t raw_size) {
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != raw_size) {
    return DataLoss("a stored value's zstd frame has the wrong size");
  }
  std::string raw(raw_size, '\0');
  const size_t got = ZSTD_decompressDCtx(DecompressionContext(), raw.data(), raw.size(),
                                         frame.data(), frame.size());
  if (ZSTD_isError(got)) {
    return DataLoss("a stored value does not decompress: {}", ZSTD_getErrorName(got));
  }
  if (got != raw_size) return DataLoss("a stored value decompresses to {} bytes", got);
  return raw;
}

absl::StatusOr<std::string> DecompressLz4(std::string_view block, uint64_t raw_size) {
  std::string raw(raw_size, '\0');
  const int got = LZ4_decompress_safe(block.data(), raw.data(), static_cast<int>(block.size()),
                                      static_cast<int>(raw.size()));
  if (got < 0 || static_cast<uint64_t>(got) != raw_size) {
    return DataLoss("a stored value's LZ4 block does not have {} bytes", raw_size);
  }
  return raw;
}

}  // namespace

std::string CompressForHits(std::string_view raw) {
  std::string compressed(static_cast<size_t>(LZ4_compressBound(static_cast<int>(raw.size()))),
                         '\0');
  const int size = LZ4_compress_HC(raw.data(), compressed.data(), static_cast<int>(raw.size()),
                                   static_cast<int>(compressed.size()), LZ4HC_CLEVEL_DEFAULT);
  const auto bytes = static_cast<size_t>(std::max(size, 0));
  if (bytes == 0 || bytes >= raw.size()) return Frame(Codec::kRaw, raw.size(), raw);
  return Frame(Codec::kLz4, raw.size(), std::string_view(compressed).substr(0, bytes));
}

std::string CompressValue(std::string_view raw) {
  if (raw.size() < kCompressedFrom) return Frame(Codec::kRaw, raw.size(), raw);
  std::string compressed(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compressCCtx(CompressionContext(), compressed.data(), compressed.size(),
                                        raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(size) || size >= raw.size()) return Frame(Codec::kRaw, raw.size(), raw);
  return Frame(Codec::kZstd, raw.size(), std::string_view(compressed).substr(0, size));
}

absl::StatusOr<std::string> DecompressValue(std::string_view stored, uint64_t raw_bytes_max) {
  ByteReader reader(stored);
  const auto codec = static_cast<Codec>(reader.Number<uint8_t>());
  const auto raw_size = reader.Number<uint64_t>();
  if (!reader.ok()) return DataLoss("a stored value of {} bytes is too short", stored.size());
  if (raw_size > raw_bytes_max) {
    return DataLoss("a stored value claims {} bytes, the limit is {}", raw_size, raw_bytes_max);
  }
  const std::string_view payload = stored.substr(sizeof(uint8_t) + sizeof(uint64_t));
  switch (codec) {
    case Codec::kRaw:
      if (payload.size() != raw_size) return DataLoss("a stored value has the wrong size");
      return std::string(payload);
    case Codec::kZstd:
      return DecompressFrame(payload, raw_size);
    case Codec::kLz4:
      return DecompressLz4(payload, raw_size);
  }
  return DataLoss("a stored value has the unknown codec {}", static_cast<int>(codec));
}

}  // namespace kiln
