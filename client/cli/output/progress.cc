#include "client/cli/output/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "client/cli/output/format.h"
#include "client/cli/output/json.h"

namespace kiln::cli {
namespace {

constexpr SteadyTime::duration kDrawTime = std::chrono::milliseconds(100);
constexpr int kSamplesMax = 64;  // about
constexpr size_t kColumns = 80;  // of a terminal whose width is not known

}  // namespace

Progress::Progress(Console& console, const Clock& clock, std::optional<uint64_t> total,
                   ProgressLines lines)
    : console_(console),
      clock_(clock),
      total_(total),
      lines_(lines),
      is_drawn_(console.progress && lines != ProgressLines::kJson),
      started_(clock.Now()),
      samples_{{started_, 0}} {
  if (!is_drawn_) shown_ = started_;
}

void Progress::Update(uint64_t done, const ProgressNote& note) {
  if (!is_drawn_ && lines_ == ProgressLines::kNone) return;
  const SteadyTime now = clock_.Now();
  Note({now, done});
  if (shown_ && now - *shown_ < (is_drawn_ ? kDrawTime : console_.progress_interval)) return;
  shown_ = now;
  if (is_drawn_) {
    is_visible_ = true;
    // What is wider would stay on the screen.
    const size_t columns = console_.columns > 0 ? console_.columns : kColumns;
    console_.err << "\r\x1b[K" << Shortened(Bar() + Text(note), columns) << std::flush;
  } else if (lines_ == ProgressLines::kText) {
    console_.err << Text(note) << std::endl;
  } else {
    console_.out << Event(note) << std::endl;
  }
}

void Progress::Clear() {
  if (!is_visible_) return;
  console_.err << "\r\x1b[K" << std::flush;
  is_visible_ = false;
}

// The rate is that of the later half of the time: much may be there at the beginning, and is found
// at once.
void Progress::Note(const Sample& now) {
  const SteadyTime::duration elapsed = now.time - started_;
  const bool is_dense =
      samples_.size() > 1 && now.time - samples_[samples_.size() - 2].time < elapsed / kSamplesMax;
  if (is_dense) samples_.pop_back();
  samples_.push_back(now);
  while (samples_.size() > 2 && samples_[1].time <= now.time - elapsed / 2) samples_.pop_front();
}

std::optional<double> Progress::PerSecond() const {
  const std::chrono::duration<double> time = samples_.back().time - samples_.front().time;
  const uint64_t before = samples_.front().done;
  if (time.count() == 0 || samples_.back().done <= before) return std::nullopt;
  return static_cast<double>(samples_.back().done - before) / time.count();
}

std::optional<std::chrono::microseconds> Progress::Left() const {
  const std::optional<double> per_second = PerSecond();
  const uint64_t done = samples_.back().done;
  if (!per_second || !total_ || done >= *total_) return std::nullopt;
  return std::chrono::microseconds(
      static_cast<int64_t>(1e6 * static_cast<double>(*total_ - done) / *per_second));
}

std::string Progress::Bar() const {
  constexpr uint64_t kBarColumns = 30;
  const uint64_t done = samples_.back().done;
  if (!total_.has_value() || *total_ == 0) return "";
  const uint64_t filled = kBarColumns * done / std::max(*total_, done);
  return fmt::format("[{:=<{}}{:{}}] ", "", filled, "", kBarColumns - filled);
}

std::string Progress::Text(const ProgressNote& note) const {
  std::string text = std::to_string(samples_.back().done);
  if (total_.value_or(0) > 0) text += fmt::format("/{}", *total_);
  if (const auto per_second = PerSecond()) text += fmt::format(", {:.1f}/s", *per_second);
  if (const auto left = Left()) text += fmt::format(", {} left", FormatDuration(*left));
  if (!note.text.empty()) text += "  " + note.text;
  if (note.failed > 0) text += fmt::format("  {} failed", note.failed);
  if (!note.waiting_for.empty()) text += "  waiting for " + Printable(note.waiting_for);
  return text;
}

// docs/cli.md lists the fields.
std::string Progress::Event(const ProgressNote& note) const {
  const auto text = [](const std::string& one) { return one.empty() ? Json() : Json(one); };
  const auto per_second = PerSecond();
  const auto left = Left();
  return Dump(Json{{"progress",
                    {{"done", samples_.back().done},
                     {"total", total_ ? Json(*total_) : Json()},
                     {"failed", note.failed},
                     {"per_second", per_second ? Json(*per_second) : Json()},
                     {"left_ms", left ? Json(left->count() / 1000) : Json()},
                     {"waiting_for", text(note.waiting_for)},
                     {"note", text(note.text)}}}});
}

}  // namespace kiln::cli
