// What can be said of a request without knowing any toolchain: sizes, counts, characters, numbers
// within what hardware has.
#pragma once

#include <cstddef>

#include "daemon/kernel/kernel.h"

namespace kiln {

// OK, or what is wrong, in a message that names the field, the limit and what to do.
// RESOURCE_EXHAUSTED for a source that is too large, INVALID_ARGUMENT for everything else.
absl::Status CheckShape(const CompileRequest& request);

// About what the request holds in memory: its texts, names and values, and the objects that hold
// them, which are most of it where those are empty. REQUIRES: CheckShape is OK.
size_t RequestBytes(const CompileRequest& request);

}  // namespace kiln
