// Checks UTF-8.
#pragma once

#include <string_view>

namespace kiln {

// True for well-formed UTF-8 (RFC 3629: shortest forms only, no surrogates, at most U+10FFFF).
bool IsValidUtf8(std::string_view bytes);

}  // namespace kiln
