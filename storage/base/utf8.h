// Checks UTF-8, and makes text that others chose fit for terminals and logs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kiln {

// True for well-formed UTF-8 (RFC 3629: shortest forms only, no surrogates, at most U+10FFFF).
bool IsValidUtf8(std::string_view bytes);

// The length of the character that `bytes` begins with; 0 where that is not well-formed UTF-8.
// REQUIRES: `bytes` is not empty.
size_t Utf8CharacterBytes(std::string_view bytes);

// Appends `text` to `out`. What a terminal obeys instead of showing it becomes `\x1b`: control
// characters, U+0080 to U+009F among them, and those that turn the direction of text. A backslash
// goes before characters of `escaped`.
void AppendPrintable(std::string& out, std::string_view text, std::string_view escaped = "");

}  // namespace kiln
