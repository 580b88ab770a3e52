#include "storage/base/digest.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <cassert>
#include <cstdlib>

namespace kiln {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

struct DigestBuilder::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  bool is_finished = false;
  ~Context() { EVP_MD_CTX_free(evp); }
};

DigestBuilder::DigestBuilder() : context_(std::make_unique<Context>()) {
  // Fails only without memory, or in a build of OpenSSL without SHA-256.
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
}

DigestBuilder::~DigestBuilder() = default;

void DigestBuilder::Update(std::string_view bytes) {
  assert(!context_->is_finished);
  if (EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) != 1) std::abort();
}

Digest DigestBuilder::Finish() {
  assert(!context_->is_finished);
  context_->is_finished = true;
  Digest digest;
  if (EVP_DigestFinal_ex(context_->evp, digest.bytes_.data(), nullptr) != 1) std::abort();
  return digest;
}

Digest Digest::Of(std::string_view bytes) {
  DigestBuilder builder;
  builder.Update(bytes);
  return builder.Finish();
}

absl::StatusOr<Digest> Digest::FromBytes(std::string_view raw) {
  if (raw.size() != kSizeBytes) {
    return InvalidArgument("a digest has {} bytes, got {}", kSizeBytes, raw.size());
  }
  Digest digest;
  std::memcpy(digest.bytes_.data(), raw.data(), kSizeBytes);
  return digest;
}

absl::StatusOr<Digest> Digest::FromHex(std::string_view hex) {
  if (hex.size() != 2 * kSizeBytes) {
    return InvalidArgument("a digest has {} hex digits, got {} characters", 2 * kSizeBytes,
                           hex.size());
  }
  Digest digest;
  for (size_t i = 0; i < kSizeBytes; ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return InvalidArgument("a digest is written in hex digits only");
    digest.bytes_[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

std::string Digest::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(2 * kSizeBytes, '\0');
  for (size_t i = 0; i < kSizeBytes; ++i) {
    hex[2 * i] = kDigits[bytes_[i] >> 4];
    hex[2 * i + 1] = kDigits[bytes_[i] & 15];
  }
  return hex;
}

}  // namespace kiln
