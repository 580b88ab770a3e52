#include "client/cli/output/format.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kiln::cli {
std::string FormatBytes(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.95 and more would round to "1024.0".
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string FormatDuration(std::chrono::microseconds duration) {
  const double micros = static_cast<double>(duration.count());
  if (micros < 1000) return fmt::format("{} µs", duration.count());
  if (micros < 999'950) return fmt::format("{:.1f} ms", micros / 1e3);
  if (micros < 59'995'000) return fmt::format("{:.2f} s", micros / 1e6);
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::string FormatAge(int64_t unix_ms, int64_t now_unix_ms) {
  if (unix_ms == 0) return "never";
  const int64_t seconds = std::max<int64_t>(0, (now_unix_ms - unix_ms) / 1000);
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

std::string FormatCount(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Hex(std::string_view raw) { return absl::BytesToHexString({raw.data(), raw.size()}); }

}  // namespace kiln::cli
