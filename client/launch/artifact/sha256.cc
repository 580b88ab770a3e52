#include "client/launch/artifact/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace kiln::launch {

Sha256Digest Sha256(std::string_view bytes) {
  Sha256Digest digest;
  // Fails only without memory, or in an OpenSSL without SHA-256: then nothing can be checked.
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  return digest;
}

Sha256Digest DigestAt(const void* bytes) {
  Sha256Digest digest;
  std::memcpy(digest.data(), bytes, digest.size());
  return digest;
}

std::string ToHex(const Sha256Digest& digest) {
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

bool FromHex(std::string_view hex, Sha256Digest& digest) {
  if (hex.size() != 2 * digest.size()) return false;
  for (size_t i = 0; i < digest.size(); ++i) {
    const char* begin = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, digest[i], 16);
    if (error != std::errc() || end != begin + 2) return false;
  }
  return true;
}

}  // namespace kiln::launch
