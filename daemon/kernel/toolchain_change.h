// What to do about a toolchain that is no longer what its fingerprint says.
#pragma once

#include <functional>

#include "daemon/kernel/toolchain.h"

namespace kiln {

// Hears what was changed, and how that shows. Must not block. May be called more than once.
using OnToolchainChange = std::function<void(const Toolchain& toolchain, const absl::Status& why)>;

// OK where nothing was done to its files since their fingerprint was taken, so that what it gave
// counts. Otherwise UNAVAILABLE: with a retry hint where something was done, of which `on_change`
// hears; without one where it cannot be told. Blocks as ToolchainSeal does.
absl::Status CheckUnchanged(const Toolchain& toolchain, const OnToolchainChange& on_change);

}  // namespace kiln
