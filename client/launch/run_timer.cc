#include "client/launch/run_timer.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kiln::launch {
namespace {

constexpr int kEstimateRuns = 5;
// A limit for very short runs.
constexpr double kRunsMax = 1000;

// Gives its events back to the driver.
class Events {
 public:
  explicit Events(Driver& driver) : driver_(driver) {}
  ~Events() {
    for (const Event event : events_) driver_.DestroyEvent(event);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  StatusOr<Event> Record(Stream stream) {
    LAUNCH_ASSIGN_OR_RETURN(const Event event, driver_.MakeEvent());
    events_.push_back(event);
    LAUNCH_RETURN_IF_ERROR(driver_.Record(event, stream));
    return event;
  }

 private:
  Driver& driver_;
  std::vector<Event> events_;
};

size_t RunsWithin(double ms, double estimate_ms) {
  if (estimate_ms <= 0) return static_cast<size_t>(kRunsMax);
  return static_cast<size_t>(std::clamp(ms / estimate_ms, 1.0, kRunsMax));
}

// REQUIRES: sorted.
double Quantile(const std::vector<float>& times, double q) {
  const double place = q * static_cast<double>(times.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, times.size() - 1);
  const double share = place - static_cast<double>(below);
  return double{times[below]} * (1 - share) + double{times[above]} * share;
}

}  // namespace

RunTimes Summarize(std::vector<float> times) {
  assert(!times.empty());
  std::sort(times.begin(), times.end());
  return {Quantile(times, 0.5), Quantile(times, 0.2), Quantile(times, 0.8),
          static_cast<uint32_t>(times.size())};
}

StatusOr<RunTimes> RunTimer::Time(const Step& reset, const Step& run) {
  LAUNCH_RETURN_IF_ERROR(reset());
  LAUNCH_RETURN_IF_ERROR(run());
  LAUNCH_RETURN_IF_ERROR(driver_.Synchronize(stream_));
  LAUNCH_ASSIGN_OR_RETURN(const double estimate_ms, Estimate(reset, run));
  for (size_t i = RunsWithin(options_.warmup_ms, estimate_ms); i > 0; --i) {
    LAUNCH_RETURN_IF_ERROR(reset());
    LAUNCH_RETURN_IF_ERROR(run());
  }
  LAUNCH_ASSIGN_OR_RETURN(std::vector<float> times,
                          Measure(RunsWithin(options_.repeat_ms, estimate_ms), reset, run));
  return Summarize(std::move(times));
}

Status RunTimer::Prepare(const Step& reset) {
  LAUNCH_RETURN_IF_ERROR(reset());
  return driver_.FillAsync(flush_, 0, options_.flush_bytes, stream_);
}

// Includes the flush, which takes its share of the time for all runs.
StatusOr<double> RunTimer::Estimate(const Step& reset, const Step& run) {
  Events events(driver_);
  LAUNCH_ASSIGN_OR_RETURN(const Event begin, events.Record(stream_));
  for (int i = 0; i < kEstimateRuns; ++i) {
    LAUNCH_RETURN_IF_ERROR(Prepare(reset));
    LAUNCH_RETURN_IF_ERROR(run());
  }
  LAUNCH_ASSIGN_OR_RETURN(const Event end, events.Record(stream_));
  LAUNCH_RETURN_IF_ERROR(driver_.Wait(end));
  LAUNCH_ASSIGN_OR_RETURN(const float ms, driver_.MillisecondsBetween(begin, end));
  return double{ms} / kEstimateRuns;
}

StatusOr<std::vector<float>> RunTimer::Measure(size_t runs, const Step& reset, const Step& run) {
  Events events(driver_);
  std::vector<std::pair<Event, Event>> marks;
  for (size_t i = 0; i < runs; ++i) {
    LAUNCH_RETURN_IF_ERROR(Prepare(reset));
    LAUNCH_ASSIGN_OR_RETURN(const Event begin, events.Record(stream_));
    LAUNCH_RETURN_IF_ERROR(run());
    LAUNCH_ASSIGN_OR_RETURN(const Event end, events.Record(stream_));
    marks.emplace_back(begin, end);
  }
  LAUNCH_RETURN_IF_ERROR(driver_.Synchronize(stream_));
  std::vector<float> times;
  for (const auto& [begin, end] : marks) {
    LAUNCH_ASSIGN_OR_RETURN(const float ms, driver_.MillisecondsBetween(begin, end));
    times.push_back(ms);
  }
  return times;
}

}  // namespace kiln::launch
