// Stages that the compile path itself knows by name. What others there are, each toolchain says.
#pragma once

#include <string_view>

namespace kiln {

inline constexpr std::string_view kCubinStage = "cubin";
// Not one of a compile: what a disassembler makes of a cubin.
inline constexpr std::string_view kSassStage = "sass";

}  // namespace kiln
