// Writes and reads fixed-width little-endian numbers and length-prefixed strings
// (storage/format.md).
#pragma once

#include <bit>
#include <cassert>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

namespace kiln {

static_assert(std::endian::native == std::endian::little, "rows are little-endian");

class ByteWriter {
 public:
  template <std::integral T>
  void Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void Raw(std::string_view value) { bytes_.append(value); }
  // A 32-bit length, then the bytes. REQUIRES: shorter than 4 GiB.
  void String(std::string_view value) {
    assert(value.size() <= std::numeric_limits<uint32_t>::max());
    Number(static_cast<uint32_t>(value.size()));
    Raw(value);
  }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads the output of a ByteWriter. The bytes may be anything: from the first error on, every read
// returns zero or an empty string, and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral T>
  T Number() {
    T value{};
    const std::string_view raw = Raw(sizeof value);
    if (raw.size() == sizeof value) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string_view Raw(size_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  std::string_view String() { return Raw(Number<uint32_t>()); }

  bool ok() const { return ok_; }
  // Whether the reads were without error and consumed everything.
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace kiln
