// The scripts that `kiln reproduce` writes: each reads what lies beside it, compiles it with the
// toolchain alone, and compares. They need Python and its standard library.
#pragma once

#include <string_view>

namespace kiln::cli {

extern const std::string_view kTritonScript;
extern const std::string_view kNativeScript;  // PTX and CUDA C++

}  // namespace kiln::cli
