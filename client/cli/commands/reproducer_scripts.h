// The scripts that `kiln reproduce` writes: each reads what lies beside it, compiles it with the
// toolchain alone, and compares. They need Python and its standard library.
#pragma once

#include <string>

namespace kiln::cli {

std::string TritonScript();
std::string NativeScript();  // PTX and CUDA C++

}  // namespace kiln::cli
