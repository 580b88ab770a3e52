// Names and values, one below the other.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/output/console.h"

namespace kiln::cli {

using Fields = std::vector<std::pair<std::string, std::string>>;

// Under a title, indented and aligned, for a person. Empty values are left out.
void PrintFields(Console& console, std::string_view title, const Fields& fields);

// A line each, tab-separated, for a program.
void PrintTabbed(Console& console, const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace kiln::cli
