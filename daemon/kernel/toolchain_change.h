// What to do about a toolchain that is no longer what its fingerprint says.
#pragma once

#include <functional>

#include "daemon/kernel/toolchain.h"

namespace kiln {

// Hears what was changed, and how that shows. Must not block. May be called more than once.
using OnToolchainChange = std::function<void(const Toolchain& toolchain, const absl::Status& why)>;

// What a look at a toolchain's files has shown.
struct ToolchainCheck {
  // OK: the files are those of the fingerprint, so what the toolchain gave counts. Otherwise
  // UNAVAILABLE, for the client.
  absl::Status status;
  // The files were changed. Otherwise an error says that the look failed.
  bool is_changed = false;
};

// Compares a toolchain's files with those of its fingerprint. `on_change` hears of a change. Blocks
// as ToolchainSeal does.
ToolchainCheck CheckUnchanged(const Toolchain& toolchain, const OnToolchainChange& on_change);

}  // namespace kiln
