// The parts of a bundle's file. docs/bundle.md describes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "storage/base/digest.h"

namespace kiln {

// The first bytes; the last of them is the version. Behind them stands the bundle's id, 32 random
// bytes, and then blocks: u32 size of the frame (little-endian), the frame (zstd, of a
// BundleBlock), its signature. Zeros stand for no signature.
inline constexpr std::string_view kBundleMagic = "KILNBDL\1";
inline constexpr size_t kBundleIdBytes = 32;

// What is signed of a block, so that none can be moved to another place or another bundle.
inline std::string SignedBytes(std::string_view id, uint64_t number, std::string_view frame) {
  std::string bytes = "kiln-bundle-1\n";
  bytes += id;
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(number >> shift));
  bytes += Digest::Of(frame).Bytes();
  return bytes;
}

}  // namespace kiln
