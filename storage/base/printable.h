// Text that others chose, made fit for terminals and logs.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

// Appends `text` to `out`. What a terminal obeys instead of showing it becomes `\x1b`: control
// characters, U+0080 to U+009F among them, and those that turn the direction of text. A backslash
// goes before characters of `escaped`.
void AppendPrintable(std::string& out, std::string_view text, std::string_view escaped = "");

}  // namespace kiln
