#include "storage/bundle/zstd_frame.h"

#include <zstd.h>

#include <memory>

#include "storage/base/zstd_contexts.h"

namespace kiln {

absl::StatusOr<std::string> CompressFrame(std::string_view content) {
  ZSTD_CCtx* const context = CompressionContext();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const size_t bytes_max = ZSTD_compressBound(content.size());
  const auto frame = std::make_unique_for_overwrite<char[]>(bytes_max);
  const size_t size =
      ZSTD_compress2(context, frame.get(), bytes_max, content.data(), content.size());
  if (ZSTD_isError(size) != 0) return Internal("zstd: {}", ZSTD_getErrorName(size));
  return std::string(frame.get(), size);
}

absl::StatusOr<std::string> DecompressFrame(std::string_view frame, size_t bytes_max) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > bytes_max) {
    return DataLoss("a compressed part is damaged: it does not say its size, or is too large");
  }
  std::string content(size, '\0');
  const size_t got = ZSTD_decompressDCtx(DecompressionContext(), content.data(), content.size(),
                                         frame.data(), frame.size());
  if (ZSTD_isError(got) != 0 || got != size) {
    return DataLoss("a compressed part is damaged: it does not decompress");
  }
  return content;
}

}  // namespace kiln
