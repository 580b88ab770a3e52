// How far work is that takes long: a bar on the terminal, lines, or JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "client/cli/output/console.h"
#include "storage/base/clock.h"

namespace kiln::cli {

// How often to call Update where nothing else happens.
inline constexpr std::chrono::milliseconds kTickTime = std::chrono::seconds(1);

// What is printed where there is no terminal for a bar. JSON is printed on every console.
enum class ProgressLines { kNone, kText, kJson };

// What stands beside the numbers.
struct ProgressNote {
  std::string text = "";
  uint64_t failed = 0;           // among what is done
  std::string waiting_for = "";  // a kernel
};

// Draws at most ten times a second where the console allows it, and erases the bar at the end.
// Otherwise prints a line of text on `err`, or of JSON on `out`, at the console's interval. Not
// thread-safe.
class Progress {
 public:
  // `total`: nothing where it is not known. REQUIRES: console and clock outlive it.
  Progress(Console& console, const Clock& clock, std::optional<uint64_t> total,
           ProgressLines lines = ProgressLines::kNone);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void SetTotal(uint64_t total) { total_ = total; }
  void Update(uint64_t done, const ProgressNote& note = {});
  // Erases the bar. Call it before printing anything else.
  void Clear();

 private:
  struct Sample {
    SteadyTime time;
    uint64_t done = 0;
  };

  void Note(const Sample& now);
  std::optional<double> PerSecond() const;
  // Until everything is done.
  std::optional<std::chrono::microseconds> Left() const;
  std::string Bar() const;
  // "13/100, 4.2/s, 20.7 s left  2 failed  waiting for softmax".
  std::string Text(const ProgressNote& note) const;
  std::string Event(const ProgressNote& note) const;

  Console& console_;
  const Clock& clock_;
  std::optional<uint64_t> total_;
  const ProgressLines lines_;
  const bool is_drawn_;
  const SteadyTime started_;
  // The last one, and those from which the rate is known.
  std::deque<Sample> samples_;
  std::optional<SteadyTime> shown_;
  bool is_visible_ = false;
};

}  // namespace kiln::cli
