// A bar on the terminal, or lines, for work that takes long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/output/console.h"
#include "storage/base/clock.h"

namespace kiln::cli {

// Draws at most ten times a second where the console allows it, and erases the bar at the end.
// Otherwise prints a line at an interval.
class Progress {
 public:
  // `total`: nothing where it is not known. `line_interval`: nothing for no lines. REQUIRES:
  // console and clock outlive it.
  Progress(Console& console, const Clock& clock, std::optional<uint64_t> total,
           std::optional<std::chrono::seconds> line_interval = std::nullopt);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` stands behind the bar.
  void Update(uint64_t done, const std::string& note);
  // Erases the bar. Call it before printing anything else.
  void Clear();

 private:
  std::string Bar(uint64_t done) const;
  // "13/100, 4.2/s, 20.7 s left".
  std::string Text(uint64_t done) const;

  Console& console_;
  const Clock& clock_;
  const std::optional<uint64_t> total_;
  const std::optional<std::chrono::seconds> line_interval_;
  const SteadyTime started_;
  SteadyTime drawn_;
  bool is_visible_ = false;
};

}  // namespace kiln::cli
