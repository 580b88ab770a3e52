// The parts that a manifest's writer and reader share. docs/manifest.md describes the file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln::cli {

// The first bytes of a manifest, and its last.
inline constexpr std::string_view kManifestMagic = "KILNMNF\n";
inline constexpr uint32_t kManifestFormat = 1;

// The end of the file: where the index is, and its frame's SHA-256.
struct ManifestTrailer {
  static constexpr size_t kSizeBytes = 2 * sizeof(uint64_t) + Digest::kSizeBytes + 8;

  uint64_t index_offset = 0;
  uint64_t index_size = 0;
  Digest index_digest;

  [[nodiscard]] std::string Encode() const;
  // DATA_LOSS where this is no trailer.
  [[nodiscard]] static absl::StatusOr<ManifestTrailer> Decode(std::string_view bytes);
};

}  // namespace kiln::cli
