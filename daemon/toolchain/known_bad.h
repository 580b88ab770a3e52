// Toolchains that are known not to work, as data.
#pragma once

#include <string_view>

namespace kiln {

// Why `version` of the toolchain `name` is not used for `backend`, or with "" for anything at all;
// "" where nothing is known against it.
std::string_view KnownBad(std::string_view name, std::string_view version,
                          std::string_view backend);

}  // namespace kiln
