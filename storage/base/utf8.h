// Checks UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace kiln {

// True for well-formed UTF-8 (RFC 3629: shortest forms only, no surrogates, at most U+10FFFF).
bool IsValidUtf8(std::string_view bytes);

// The length of the character that `bytes` begins with; 0 where that is not well-formed UTF-8.
// REQUIRES: `bytes` is not empty.
size_t Utf8CharacterBytes(std::string_view bytes);

}  // namespace kiln
