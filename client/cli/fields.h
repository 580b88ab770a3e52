// Names and values, one below the other.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/console.h"

namespace kiln::cli {

using Fields = std::vector<std::pair<std::string_view, std::string>>;

// Under a title, indented and aligned; tab-separated without title where no person reads. Empty
// values are left out.
void PrintFields(Console& console, std::string_view title, const Fields& fields);

}  // namespace kiln::cli
