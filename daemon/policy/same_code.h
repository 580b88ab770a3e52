// Whether two binaries run alike.
#pragma once

#include <string_view>

namespace kiln {

// Whether all is equal that a GPU is given: both are ELF files, and differ at most in sections for
// debuggers and in where things lie in the file. ptxas writes the size and the time of the files
// that its input names into the line table, so that an edited comment makes another binary of the
// same code. False where either is no whole ELF file.
bool HaveSameCode(std::string_view one, std::string_view other);

}  // namespace kiln
