#include "client/launch/tuner.h"

#include <optional>

#include "client/launch/tuning_record.h"

namespace kiln::launch {
namespace {

StatusOr<size_t> FastestOf(const std::vector<CandidateResult>& results) {
  std::optional<size_t> fastest;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].status.ok()) continue;
    if (!fastest || results[i].times.median_ms < results[*fastest].times.median_ms) fastest = i;
  }
  if (fastest) return *fastest;
  return results.front().status.Annotate(
      fmt::format("none of {} candidates runs; the first", results.size()));
}

// One tuning.
class Tuning {
 public:
  Tuning(Launcher& launcher, const std::vector<Candidate>& candidates, const TuningRequest& request,
         std::vector<CandidateResult>& results)
      : launcher_(launcher),
        driver_(launcher.driver()),
        candidates_(candidates),
        request_(request),
        results_(results) {}

  // The context of all candidates. Null: none can run.
  StatusOr<Context> CheckCandidates();
  // REQUIRES: that context is current, for this and all functions below.
  Status LookUp();
  bool IsComplete() const;
  Status TimeTheRest();

 private:
  Status CheckMayRun();
  Status TimeAll(RunTimer& timer, SavedMemory& saved);
  StatusOr<RunTimes> TimeOne(const Candidate& candidate, RunTimer& timer, SavedMemory& saved);
  bool IsToBeTimed(size_t i) const { return results_[i].status.ok() && !results_[i].is_stored; }

  Launcher& launcher_;
  Driver& driver_;
  const std::vector<Candidate>& candidates_;
  const TuningRequest& request_;
  std::vector<CandidateResult>& results_;
  std::vector<std::string> keys_;
};

StatusOr<Context> Tuning::CheckCandidates() {
  Context context = nullptr;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    Status& status = results_[i].status;
    if (candidates_[i].kernel == nullptr) {
      status = FailedPrecondition("it has no kernel");
    } else if (candidates_[i].call.IsEmpty()) {
      status = InvalidArgument("its grid is empty: nothing would be timed");
    }
    if (!status.ok()) continue;
    const Context own = candidates_[i].kernel->context();
    if (context == nullptr) context = own;
    if (own != context) return InvalidArgument("the candidates' kernels are of several contexts");
  }
  return context;
}

Status Tuning::LookUp() {
  LAUNCH_ASSIGN_OR_RETURN(const DeviceFacts device, driver_.CurrentDevice());
  keys_.resize(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!results_[i].status.ok()) continue;
    const Candidate& candidate = candidates_[i];
    keys_[i] =
        TuningKey(candidate.kernel->artifact().id(), device, candidate.call, request_.problem);
    if (request_.store.find == nullptr) continue;
    char record[kTuningRecordBytesMax];
    const uint64_t bytes = request_.store.find(request_.store.user, keys_[i].data(),
                                               keys_[i].size(), record, sizeof record);
    if (bytes == 0 || bytes > sizeof record) continue;
    if (const auto times = DecodeRunTimes({record, bytes})) {
      results_[i].times = *times;
      results_[i].is_stored = true;
    }
  }
  return Status();
}

bool Tuning::IsComplete() const {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (IsToBeTimed(i)) return false;
  }
  return true;
}

Status Tuning::CheckMayRun() {
  // IsCapturing fails for the NULL stream while a stream that it waits for captures.
  for (const Stream stream : {request_.stream, Stream{nullptr}}) {
    LAUNCH_ASSIGN_OR_RETURN(const bool is_capturing,
                            driver_.IsCapturing(stream).Annotate("kernels cannot be tuned now"));
    if (is_capturing) {
      return FailedPrecondition(
          "the stream captures, so nothing on it runs: tune before the capture, or have all times "
          "in the store");
    }
  }
  for (const auto* ranges : {&request_.reads, &request_.writes}) {
    for (const MemoryRange& range : *ranges) LAUNCH_RETURN_IF_ERROR(CheckRange(driver_, range));
  }
  return Status();
}

Status Tuning::TimeTheRest() {
  // Keeps captures of other threads alive.
  const ScopedRelaxedCapture relaxed(driver_);
  LAUNCH_RETURN_IF_ERROR(CheckMayRun());
  // Waits for work that still writes to the buffers, before they are copied.
  LAUNCH_RETURN_IF_ERROR(driver_.Synchronize(request_.stream));
  const kiln_launch_settings settings = launcher_.settings();
  Scratch flush(driver_, settings, request_.stream);
  LAUNCH_RETURN_IF_ERROR(flush.Allocate(request_.timing.flush_bytes, 1));
  SavedMemory saved(driver_, settings, request_.stream);
  LAUNCH_RETURN_IF_ERROR(saved.Save(Overlaps(request_.reads, request_.writes)));
  RunTimer timer(driver_, request_.stream, request_.timing, flush.address());
  const Status status = TimeAll(timer, saved);
  const Status restored = saved.Restore();
  const Status finished = driver_.Synchronize(request_.stream);
  if (!status.ok()) return status;
  return restored.ok() ? finished : restored;
}

Status Tuning::TimeAll(RunTimer& timer, SavedMemory& saved) {
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!IsToBeTimed(i)) continue;
    if (request_.is_cancelled != nullptr && request_.is_cancelled(request_.cancel_user) != 0) {
      return Cancelled("the caller cancelled the tuning");
    }
    const StatusOr<RunTimes> times = TimeOne(candidates_[i], timer, saved);
    if (times.ok()) {
      results_[i].times = *times;
      if (request_.store.put == nullptr) continue;
      const std::string record = EncodeRunTimes(*times);
      request_.store.put(request_.store.user, keys_[i].data(), keys_[i].size(), record.data(),
                         record.size());
      continue;
    }
    results_[i].status = times.status();
    // An error that breaks the context ends the whole tuning.
    if (!driver_.Synchronize(request_.stream).ok()) {
      return times.status().Annotate(fmt::format("candidate {} broke the context", i));
    }
  }
  return Status();
}

StatusOr<RunTimes> Tuning::TimeOne(const Candidate& candidate, RunTimer& timer,
                                   SavedMemory& saved) {
  LAUNCH_RETURN_IF_ERROR(launcher_.Prepare(*candidate.kernel));
  LaunchCall call = candidate.call;
  call.stream = request_.stream;
  return timer.Time([&] { return saved.Restore(); },
                    [&] {
                      saved.MarkDirty();
                      return launcher_.EnqueueUnobserved(candidate.kernel, call);
                    });
}

}  // namespace

Mutex& Tuner::MutexOf(int device) {
  const MutexLock lock(mutex_);
  return tunings_[device];
}

StatusOr<size_t> Tuner::Tune(const std::vector<Candidate>& candidates, const TuningRequest& request,
                             std::vector<CandidateResult>& results) {
  results.assign(candidates.size(), {});
  if (candidates.empty()) return InvalidArgument("there are no candidates");
  if (request.store.find != nullptr && request.problem.empty()) {
    return InvalidArgument(
        "a tuning with a store needs the problem's words (sizes, types): times of one problem say "
        "nothing of another");
  }
  Tuning tuning(launcher_, candidates, request, results);
  LAUNCH_ASSIGN_OR_RETURN(const Context context, tuning.CheckCandidates());
  if (context == nullptr) return FastestOf(results);
  const auto any = std::find_if(candidates.begin(), candidates.end(),
                                [](const Candidate& one) { return one.kernel != nullptr; });
  const MutexLock lock(MutexOf(any->kernel->plan().device()));
  const ScopedContext scope(launcher_.driver(), context);
  Status status = scope.status();
  if (status.ok()) status = tuning.LookUp();
  if (status.ok() && !tuning.IsComplete()) status = tuning.TimeTheRest();
  if (status.ok()) return FastestOf(results);
  // Candidates that were not timed get the reason.
  for (CandidateResult& result : results) {
    if (result.status.ok() && result.times.runs == 0) result.status = status;
  }
  return status;
}

}  // namespace kiln::launch
