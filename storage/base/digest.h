// SHA-256 as a value. Names a blob; a compile key is one too.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// 32 bytes. A regular value type; the default value is all zeroes and names nothing.
class Digest {
 public:
  static constexpr size_t kSizeBytes = 32;

  Digest() = default;

  // The SHA-256 of `bytes`.
  static Digest Of(std::string_view bytes);

  // From 32 raw bytes, or from 64 hex digits of either case. INVALID_ARGUMENT for anything else.
  static absl::StatusOr<Digest> FromBytes(std::string_view raw);
  static absl::StatusOr<Digest> FromHex(std::string_view hex);

  // 64 lowercase hex digits.
  std::string Hex() const;
  // The first 12 hex digits, for tables and logs.
  std::string ShortHex() const { return Hex().substr(0, 12); }
  std::string_view Bytes() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  bool IsZero() const { return *this == Digest(); }

  friend auto operator<=>(const Digest&, const Digest&) = default;

 private:
  friend class DigestBuilder;
  std::array<uint8_t, kSizeBytes> bytes_{};
};

// For std::unordered_map: a digest is already uniformly distributed.
struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t value;
    std::memcpy(&value, digest.Bytes().data(), sizeof value);
    return value;
  }
};

// SHA-256 over a stream. Not thread-safe.
class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;

  void Update(std::string_view bytes);
  // REQUIRES: called once, as the last call.
  Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace kiln
