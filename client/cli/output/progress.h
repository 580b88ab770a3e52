// A bar on the terminal for work that takes long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/output/console.h"
#include "storage/base/clock.h"

namespace kiln::cli {

// Draws at most ten times a second, and only if the console allows it. Erases the bar at the end.
class Progress {
 public:
  // `total`: nothing where it is not known. REQUIRES: console and clock outlive it.
  Progress(Console& console, const Clock& clock, std::optional<uint64_t> total);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` stands behind the bar.
  void Update(uint64_t done, const std::string& note);
  // Erases the bar. Call it before printing anything else.
  void Clear();

 private:
  std::string Bar(uint64_t done) const;

  Console& console_;
  const Clock& clock_;
  const std::optional<uint64_t> total_;
  const SteadyTime started_;
  std::optional<SteadyTime> drawn_;
  bool is_visible_ = false;
};

}  // namespace kiln::cli
