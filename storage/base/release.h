// The arguments that deploy/install-toolchain accepts.
#pragma once

#include <string_view>

namespace kiln {

inline bool IsInstallable(std::string_view name) { return name == "triton" || name == "nvrtc"; }

// Three numbers: "3.6.0".
inline bool IsRelease(std::string_view version) {
  for (int points_left = 2;; --points_left) {
    const size_t digits = version.find_first_not_of("0123456789");
    if (digits == 0 || version.empty()) return false;
    if (digits == std::string_view::npos) return points_left == 0;
    if (version[digits] != '.' || points_left == 0) return false;
    version.remove_prefix(digits + 1);
  }
}

}  // namespace kiln
