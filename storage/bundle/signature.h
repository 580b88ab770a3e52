// Ed25519 signatures (RFC 8032) by keys in PEM files, through OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

using EVP_PKEY = struct evp_pkey_st;

namespace kiln {

inline constexpr size_t kSignatureBytes = 64;

struct FreeKey {
  void operator()(EVP_PKEY* key) const;
};
using KeyPointer = std::unique_ptr<EVP_PKEY, FreeKey>;

// A private key. Thread-safe.
class SigningKey {
 public:
  // As `openssl genpkey -algorithm ed25519` writes it. INVALID_ARGUMENT: not such a key; the errors
  // of reading a file.
  [[nodiscard]] static absl::StatusOr<SigningKey> Read(const std::string& path);

  [[nodiscard]] absl::StatusOr<std::string> Sign(std::string_view bytes) const;

 private:
  explicit SigningKey(KeyPointer key) : key_(std::move(key)) {}
  KeyPointer key_;
};

// Public keys whose signatures are believed. Thread-safe.
class TrustedKeys {
 public:
  // A file of public keys, as `openssl pkey -pubout` writes each, one behind the other. Words
  // between them are comments. FAILED_PRECONDITION: the file is not there, or others than root and
  // this process's user own it or may write it, or it has something else than Ed25519 keys.
  [[nodiscard]] static absl::StatusOr<TrustedKeys> Read(const std::string& path);

  // Whether one of them has signed the bytes.
  [[nodiscard]] bool HaveSigned(std::string_view bytes, std::string_view signature) const;

 private:
  explicit TrustedKeys(std::vector<KeyPointer> keys) : keys_(std::move(keys)) {}
  std::vector<KeyPointer> keys_;
};

}  // namespace kiln
