// Compares the code of two binaries.
#pragma once

#include <string_view>

namespace kiln {

// Whether a GPU gets the same from both: they are ELF files that differ at most in sections for
// debuggers and in file offsets. ptxas writes size and time of the files that its input names into
// the line table, so an edited comment makes another binary of the same code. False where either is
// no whole ELF file.
bool HaveSameCode(std::string_view one, std::string_view other);

}  // namespace kiln
