#include "storage/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>

namespace kiln {
namespace {

// The sequence that a lead byte begins: its length and the bounds of its second byte, which exclude
// overlong forms, surrogates and everything beyond U+10FFFF. Length 0: no sequence begins so.
struct Sequence {
  size_t length = 0;
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xbf;
};

Sequence SequenceOf(uint8_t lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return {2, 0x80, 0xbf};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {3, 0x80, 0xbf};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {4, 0x80, 0xbf};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

// Sources are nearly all ASCII, so this takes eight bytes at a time.
size_t AsciiPrefix(std::string_view bytes) {
  size_t at = 0;
  for (uint64_t word; at + sizeof word <= bytes.size(); at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (at < bytes.size() && static_cast<uint8_t>(bytes[at]) < 0x80) ++at;
  return at;
}

// The bytes of a character at the beginning of `text` that is not to be shown.
size_t HiddenBytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  if (at(0) < 0x20 || at(0) == 0x7F) return 1;
  if (at(0) == 0xC2 && at(1) != 0 && at(1) < 0xA0) return 2;
  const int end = at(0) == 0xE2 ? at(1) << 8 | at(2) : 0;
  const bool turns = (end >= 0x80AA && end <= 0x80AE) || (end >= 0x81A6 && end <= 0x81A9);
  return turns ? 3 : 0;  // U+202A to U+202E, U+2066 to U+2069
}

}  // namespace

size_t Utf8CharacterBytes(std::string_view bytes) {
  const auto byte_at = [&bytes](size_t at) { return static_cast<uint8_t>(bytes[at]); };
  assert(!bytes.empty());
  if (byte_at(0) < 0x80) return 1;
  const Sequence sequence = SequenceOf(byte_at(0));
  if (sequence.length == 0 || bytes.size() < sequence.length) return 0;
  if (byte_at(1) < sequence.second_min || byte_at(1) > sequence.second_max) return 0;
  for (size_t i = 2; i < sequence.length; ++i) {
    if ((byte_at(i) & 0xc0) != 0x80) return 0;
  }
  return sequence.length;
}

bool IsValidUtf8(std::string_view bytes) {
  while (true) {
    bytes.remove_prefix(AsciiPrefix(bytes));
    if (bytes.empty()) return true;
    const size_t length = Utf8CharacterBytes(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
}

void AppendPrintable(std::string& out, std::string_view text, std::string_view escaped) {
  while (!text.empty()) {
    const size_t hidden = HiddenBytes(text);
    for (const char byte : text.substr(0, hidden)) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    if (hidden == 0 && escaped.find(text.front()) != std::string_view::npos) out += '\\';
    if (hidden == 0) out += text.front();
    text.remove_prefix(std::max<size_t>(hidden, 1));
  }
}

}  // namespace kiln
