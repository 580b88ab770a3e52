#include "client/cli/requests/manifest_frame.h"

#include <zstd.h>

#include <cstring>
#include <memory>

namespace kiln::cli {
namespace {

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

void Append(std::string& bytes, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(value >> shift));
}

uint64_t NumberAt(std::string_view bytes, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  }
  return value;
}

}  // namespace

std::string ManifestTrailer::Encode() const {
  std::string bytes;
  Append(bytes, index_offset);
  Append(bytes, index_size);
  bytes += index_digest.Bytes();
  bytes += kManifestMagic;
  return bytes;
}

absl::StatusOr<ManifestTrailer> ManifestTrailer::Decode(std::string_view bytes) {
  if (bytes.size() != kSizeBytes || !bytes.ends_with(kManifestMagic)) {
    return DataLoss("the manifest does not end as one: it is cut off or damaged");
  }
  ManifestTrailer trailer{NumberAt(bytes, 0), NumberAt(bytes, sizeof(uint64_t)), {}};
  KILN_ASSIGN_OR_RETURN(trailer.index_digest,
                        Digest::FromBytes(bytes.substr(2 * sizeof(uint64_t), Digest::kSizeBytes)));
  return trailer;
}

absl::StatusOr<std::string> CompressFrame(std::string_view content) {
  const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string frame(ZSTD_compressBound(content.size()), '\0');
  const size_t size =
      ZSTD_compress2(context.get(), frame.data(), frame.size(), content.data(), content.size());
  if (ZSTD_isError(size) != 0) return Internal("zstd: {}", ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

absl::StatusOr<std::string> DecompressFrame(std::string_view frame, size_t bytes_max) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > bytes_max) {
    return DataLoss("the manifest is damaged: a frame does not say its size, or is too large");
  }
  std::string content(size, '\0');
  const size_t got = ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size());
  if (ZSTD_isError(got) != 0 || got != size) {
    return DataLoss("the manifest is damaged: a frame does not decompress");
  }
  return content;
}

}  // namespace kiln::cli
