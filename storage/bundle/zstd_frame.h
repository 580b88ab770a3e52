// Whole contents as single zstd frames.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// A frame that says its size and has a checksum.
[[nodiscard]] absl::StatusOr<std::string> CompressFrame(std::string_view content);
// DATA_LOSS: damaged, or more than `bytes_max`.
[[nodiscard]] absl::StatusOr<std::string> DecompressFrame(std::string_view frame, size_t bytes_max);

}  // namespace kiln
