// Where two sources differ, for a person.
#pragma once

#include <string>
#include <vector>

namespace kiln::cli {

// "line 12 (train.py:31): a" and "  stored: b", of the first three lines that are not the
// same. Lines that were added or removed are between those that both begin and end with. The place
// in the program is what Triton IR says of a line. Triton keeps none for a constant, which has that
// of its first use.
std::vector<std::string> DifferentLines(const std::string& asked, const std::string& stored);

}  // namespace kiln::cli
