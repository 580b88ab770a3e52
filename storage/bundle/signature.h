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
  // between them are comments. FAILED_PRECONDITION, with what to do: the file is not there, or
  // others than root and this process's user own it or may write it, or it has no such key.
  [[nodiscard]] static absl::StatusOr<TrustedKeys> Read(const std::string& path);

  // The lines where something begins that is no Ed25519 public key, as "line 7, line 12". Empty:
  // there is none.
  const std::string& bad_lines() const { return bad_lines_; }
  // Whether one of them has signed the bytes.
  [[nodiscard]] bool HaveSigned(std::string_view bytes, std::string_view signature) const;

 private:
  TrustedKeys() = default;
  std::vector<KeyPointer> keys_;
  std::string bad_lines_;
};

}  // namespace kiln
