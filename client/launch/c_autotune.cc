// kiln_launch_autotune: translates a tuning and its results.
#include "client/launch/c_edge.h"

using namespace kiln::launch;  // NOLINT: this file is their interface

namespace {

// Element `index` of an array of structs of the caller's size.
template <typename Struct>
Struct* At(Struct* first, uint32_t index) {
  return reinterpret_cast<Struct*>(reinterpret_cast<uintptr_t>(first) +
                                   uintptr_t{first->size} * index);
}

StatusOr<std::vector<Candidate>> CandidatesOf(const kiln_launch_candidate* candidates,
                                              uint32_t count) {
  std::vector<Candidate> result;
  for (uint32_t i = 0; i < count; ++i) {
    const kiln_launch_candidate* given = At(candidates, i);
    if (given->size != candidates->size) {
      return InvalidArgument("candidate {} has a size of {}, the first of {}", i, given->size,
                             candidates->size);
    }
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_candidate known, Read(given));
    Candidate& candidate = result.emplace_back();
    if (known.kernel == nullptr) continue;
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.config));
    if (known.argument_count > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.arguments));
    LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_config config, Read(known.config));
    candidate.kernel = known.kernel->kernel;
    candidate.call = {config, known.arguments, known.argument_count};
  }
  return result;
}

StatusOr<std::vector<MemoryRange>> RangesOf(const kiln_launch_range* ranges, uint64_t count) {
  if (count > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(ranges));
  std::vector<MemoryRange> result;
  for (uint64_t i = 0; i < count; ++i) result.push_back({ranges[i].address, ranges[i].bytes});
  return result;
}

StatusOr<TuningRequest> TuningRequestOf(const kiln_launch_autotune_options* options) {
  LAUNCH_ASSIGN_OR_RETURN(const kiln_launch_autotune_options known, Read(options));
  if (known.problem_bytes > 0) LAUNCH_RETURN_IF_ERROR(CheckNotNull(known.problem));
  TuningRequest request;
  request.stream = known.stream;
  LAUNCH_ASSIGN_OR_RETURN(request.reads, RangesOf(known.reads, known.read_count));
  LAUNCH_ASSIGN_OR_RETURN(request.writes, RangesOf(known.writes, known.write_count));
  if (known.problem_bytes > 0) {
    request.problem.assign(static_cast<const char*>(known.problem), known.problem_bytes);
  }
  if (known.warmup_ms > 0) request.timing.warmup_ms = known.warmup_ms;
  if (known.repeat_ms > 0) request.timing.repeat_ms = known.repeat_ms;
  if (known.flush_bytes > 0) request.timing.flush_bytes = known.flush_bytes;
  LAUNCH_ASSIGN_OR_RETURN(request.store, Read(known.store));
  if (known.store != nullptr) {
    LAUNCH_RETURN_IF_ERROR(CheckNotNull(request.store.find, request.store.put));
  }
  request.is_cancelled = known.is_cancelled;
  request.cancel_user = known.cancel_user;
  return request;
}

// Called before anything runs: results that cannot be written afterwards are lost.
Status CheckTuned(const kiln_launch_tuned* tuned, uint32_t count) {
  if (tuned == nullptr) return Status();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t size = At(tuned, i)->size;
    if (size >= sizeof size && size == tuned->size) continue;
    return InvalidArgument("result {} has a size of {}, the first of {}: set each to sizeof it", i,
                           size, tuned->size);
  }
  return Status();
}

Status WriteTuned(const std::vector<CandidateResult>& results, kiln_launch_tuned* tuned) {
  if (tuned == nullptr) return Status();
  for (uint32_t i = 0; i < results.size(); ++i) {
    kiln_launch_tuned result{};
    result.code = static_cast<kiln_launch_code>(results[i].status.code());
    result.is_stored = results[i].is_stored ? 1 : 0;
    result.runs = results[i].times.runs;
    result.median_ms = results[i].times.median_ms;
    result.low_ms = results[i].times.low_ms;
    result.high_ms = results[i].times.high_ms;
    CopyText(std::string(results[i].status.message()), result.reason);
    LAUNCH_RETURN_IF_ERROR(Write(result, At(tuned, i)));
  }
  return Status();
}

}  // namespace

extern "C" {

kiln_launch_code kiln_launch_autotune(kiln_launch_runtime* runtime,
                                      const kiln_launch_candidate* candidates, uint32_t count,
                                      const kiln_launch_autotune_options* options,
                                      kiln_launch_tuned* tuned, uint32_t* fastest) {
  return Guarded({runtime, candidates, fastest}, [&]() -> Status {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<Candidate> known, CandidatesOf(candidates, count));
    LAUNCH_ASSIGN_OR_RETURN(const TuningRequest request, TuningRequestOf(options));
    LAUNCH_RETURN_IF_ERROR(CheckTuned(tuned, count));
    std::vector<CandidateResult> results;
    const StatusOr<size_t> found = runtime->tuner.Tune(known, request, results);
    LAUNCH_RETURN_IF_ERROR(WriteTuned(results, tuned));
    if (!found.ok()) return found.status();
    *fastest = static_cast<uint32_t>(*found);
    return Status();
  });
}

}  // extern "C"
