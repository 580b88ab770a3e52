// A shared library that a test has for itself alone.
#pragma once

#include <string>

namespace kiln {

// Copies `library` into the folder for temporary files and opens the copy, so that it begins anew.
// Its path; the test removes it. `control` is the address of that symbol. Ends the program where
// that fails.
//
// It stays loaded: threads and graphs of a test may still be on their way out of it.
std::string OpenPrivateCopy(const std::string& library, const char* symbol, void** control);

}  // namespace kiln
