// Sizes, durations and ages as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::cli {

// "512 B", "31.5 KiB", "10.0 GiB".
[[nodiscard]] std::string FormatBytes(uint64_t bytes);
// "85 µs", "12.3 ms", "4.56 s", "3 min 20 s".
[[nodiscard]] std::string FormatDuration(std::chrono::microseconds duration);
// "5 s", "3 min", "2 h", "4 d"; "never" for the moment 0.
[[nodiscard]] std::string FormatAge(int64_t unix_ms, int64_t now_unix_ms);

// "1 file", "3 files".
[[nodiscard]] std::string FormatCount(uint64_t count, std::string_view noun);

// 32 raw bytes as 64 lowercase hex digits; other lengths as well.
[[nodiscard]] std::string Hex(std::string_view raw);

}  // namespace kiln::cli
