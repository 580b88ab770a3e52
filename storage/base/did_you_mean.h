// "Did you mean …?" for mistyped names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kiln {

// "; did you mean store.size?", or "" where no known name is near.
std::string DidYouMean(std::string_view given, std::span<const std::string> known);

}  // namespace kiln
