// The arguments that deploy/install-toolchain accepts.
#pragma once

#include <string_view>

namespace kiln {

// "triton" and "nvrtc".
bool IsInstallable(std::string_view name);

// Three numbers: "3.6.0".
bool IsRelease(std::string_view version);

}  // namespace kiln
