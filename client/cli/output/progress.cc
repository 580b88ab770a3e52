#include "client/cli/output/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "client/cli/output/format.h"

namespace kiln::cli {
Progress::Progress(Console& console, const Clock& clock, std::optional<uint64_t> total)
    : console_(console), clock_(clock), total_(total), started_(clock.Now()) {}

void Progress::Update(uint64_t done, const std::string& note) {
  constexpr auto kInterval = std::chrono::milliseconds(100);
  const SteadyTime now = clock_.Now();
  if (!console_.progress || (drawn_.has_value() && now - *drawn_ < kInterval)) return;
  drawn_ = now;
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
  const auto elapsed =
      std::chrono::duration_cast<std::chrono::microseconds>(clock_.Now() - started_);
  if (!total_.has_value() || *total_ == 0) return fmt::format("{}", done);
  const uint64_t total = std::max(*total_, done);
  const uint64_t filled = kBarColumns * done / total;
  std::string bar =
      fmt::format("[{:=<{}}{:{}}] {}/{}", "", filled, "", kBarColumns - filled, done, *total_);
  if (done > 0 && done < total) {
    bar += fmt::format(", {} left", FormatDuration(elapsed / done * (total - done)));
  }
  return bar;
}

}  // namespace kiln::cli
