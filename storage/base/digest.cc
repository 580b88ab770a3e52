#include "storage/base/digest.h"

#include <absl/strings/escaping.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <cassert>
#include <charconv>
#include <cstdlib>

namespace kiln {
namespace {

// OpenSSL would look EVP_sha256() up anew for each hash, in the time that 700 bytes take.
// Aborts without memory, or in a build of OpenSSL without SHA-256.
const EVP_MD* Sha256() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (algorithm == nullptr) std::abort();
  return algorithm;
}

}  // namespace

struct DigestBuilder::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  bool is_finished = false;
  ~Context() { EVP_MD_CTX_free(evp); }
};

DigestBuilder::DigestBuilder() : context_(std::make_unique<Context>()) {
  // Fails only without memory.
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, Sha256(), nullptr) != 1) {
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
    const char* const digits = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, digest.bytes_[i], 16);
    if (error != std::errc() || end != digits + 2) {
      return InvalidArgument("a digest is written in hex digits only");
    }
  }
  return digest;
}

std::string Digest::Hex() const { return absl::BytesToHexString({Bytes().data(), Bytes().size()}); }

}  // namespace kiln
