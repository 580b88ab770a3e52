// Sizes, durations and other values as people write them: "10GiB", "300s", "0660".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "storage/base/status.h"

namespace kiln {

// Errors are INVALID_ARGUMENT and describe the expected form. The caller adds the name of the
// field.

// "512", "512B", "64KiB", "1.5GiB", "2T": powers of 1024 only. Refuses "GB", which is ambiguous.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);
// The largest unit that divides it: "10GiB", "1536MiB".
std::string FormatSize(uint64_t bytes);

// "250ms", "300s", "5min" or "5m", "1h".
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);
std::string FormatDuration(std::chrono::milliseconds duration);

absl::StatusOr<int64_t> ParseInteger(std::string_view text);
// Octal permission bits: "0660".
absl::StatusOr<uint32_t> ParseFileMode(std::string_view text);

}  // namespace kiln
