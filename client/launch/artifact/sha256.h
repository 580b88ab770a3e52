// SHA-256, by OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::launch {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(std::string_view bytes);
// From 32 raw bytes.
Sha256Digest DigestAt(const void* bytes);
// 64 lowercase hex digits.
std::string ToHex(const Sha256Digest& digest);
// Reads 64 hex digits of either case. False: not such digits.
bool FromHex(std::string_view hex, Sha256Digest& digest);

}  // namespace kiln::launch
