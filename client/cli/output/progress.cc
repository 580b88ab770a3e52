#include "client/cli/output/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "client/cli/output/format.h"

namespace kiln::cli {
Progress::Progress(Console& console, const Clock& clock, std::optional<uint64_t> total,
                   std::optional<std::chrono::seconds> line_interval)
    : console_(console),
      clock_(clock),
      total_(total),
      line_interval_(line_interval),
      started_(clock.Now()),
      drawn_(console.progress ? SteadyTime::min() : started_) {}

void Progress::Update(uint64_t done, const std::string& note) {
  constexpr SteadyTime::duration kDrawTime = std::chrono::milliseconds(100);
  if (!console_.progress && !line_interval_) return;
  const SteadyTime now = clock_.Now();
  const bool is_due = drawn_ == SteadyTime::min() ||
                      now - drawn_ >= (console_.progress ? kDrawTime : *line_interval_);
  if (!is_due) return;
  drawn_ = now;
  if (!console_.progress) {
    console_.err << Text(done) << "  " << note << std::endl;
    return;
  }
  is_visible_ = true;
  console_.err << "\r\x1b[K" << Bar(done) << "  " << note << std::flush;
}

void Progress::Clear() {
  if (!is_visible_) return;
  console_.err << "\r\x1b[K" << std::flush;
  is_visible_ = false;
}

std::string Progress::Bar(uint64_t done) const {
  constexpr uint64_t kBarColumns = 30;
  if (!total_.has_value() || *total_ == 0) return Text(done);
  const uint64_t filled = kBarColumns * done / std::max(*total_, done);
  return fmt::format("[{:=<{}}{:{}}] {}", "", filled, "", kBarColumns - filled, Text(done));
}

std::string Progress::Text(uint64_t done) const {
  const auto elapsed =
      std::chrono::duration_cast<std::chrono::microseconds>(clock_.Now() - started_);
  std::string text = std::to_string(done);
  if (total_.has_value() && *total_ > 0) text += fmt::format("/{}", *total_);
  if (done == 0 || elapsed.count() == 0) return text;
  text += fmt::format(", {:.1f}/s",
                      1e6 * static_cast<double>(done) / static_cast<double>(elapsed.count()));
  if (total_.has_value() && done < *total_) {
    text += fmt::format(", {} left", FormatDuration(elapsed / done * (*total_ - done)));
  }
  return text;
}

}  // namespace kiln::cli
