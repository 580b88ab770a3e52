// Requests out of a fuzzer's bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/kernel/kernel.h"

class FuzzedDataProvider;

namespace kiln {

// Any value of each field, within and beyond what is allowed; often one that means something.
CompileRequest RandomRequest(FuzzedDataProvider& data);

}  // namespace kiln
