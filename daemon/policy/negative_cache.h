// Sources that are known not to compile, or to crash their compiler.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/kernel/compile_job.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/lru_cache.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"

namespace kiln {

// A request that came to nothing: its failure, or how it crashed its compiler.
struct RememberedRequest {
  CompileJobPtr job;
  std::shared_ptr<const CompileFailure> failure;  // null: it crashed
  std::string crash;
};

// Remembers two kinds of results by key.
//  * A deterministic failure stands for a compile for `failure_time`: a job that keeps asking does
//    not keep compiling. Afterwards the cache still knows the failure, for callers that must not
//    compile.
//  * A crash keeps the key from being compiled for `quarantine_time`. 0: no crash is remembered.
//
// Bounded in number and bytes, requests apart from results; the least recently used go first. Lost
// with the process. Thread-safe; does not block. The clock outlives it.
class NegativeCache {
 public:
  struct Crash {
    std::string why;
    std::chrono::milliseconds left{};  // until the key may be compiled again
  };

  NegativeCache(const Clock& clock, std::chrono::nanoseconds quarantine_time,
                std::chrono::nanoseconds failure_time = limits::kFailureTtl)
      : clock_(clock), quarantine_time_(quarantine_time), failure_time_(failure_time) {}

  // REQUIRES: the failure is deterministic.
  void RememberFailure(const CompileJobPtr& job, FailurePtr failure);
  void RememberCrash(const CompileJobPtr& job, std::string_view why);
  void Forget(const Digest& key);

  // Null where none stands for a compile.
  FailurePtr FindFailure(const Digest& key);
  // Null where none is known.
  FailurePtr FindFailureOfAnyAge(const Digest& key);
  // Counts as a refusal where the key crashed.
  std::optional<Crash> Refuse(const Digest& key);
  // The failure or crash with its request, where there was room for the request.
  std::optional<RememberedRequest> FindRequest(const Digest& key);

  // Lets a key that crashed be compiled again. False where nothing kept it from that.
  bool LiftCrash(const Digest& key);
  // Returns how many.
  size_t LiftAllCrashes();
  size_t CrashCount();

 private:
  struct Entry {
    FailurePtr failure;  // null: a crash
    std::string crash;
    SteadyTime until;
  };
  struct Request {
    CompileJobPtr job;
    SteadyTime until;
  };

  void Remember(const CompileJobPtr& job, Entry entry, size_t bytes);
  // Null where nothing stands for a compile, or against one.
  const Entry* FindStanding(const Digest& key) KILN_REQUIRES(mutex_);

  const Clock& clock_;
  const std::chrono::nanoseconds quarantine_time_;
  const std::chrono::nanoseconds failure_time_;
  Counter refusals_{"quarantine_refusals",
                    "Requests refused because their kernel crashed its compiler."};
  Mutex mutex_;
  LruCache<Entry> entries_ KILN_GUARDED_BY(mutex_){limits::kFailuresMax,
                                                   limits::kKnownFailureBytesMax};
  LruCache<Request> requests_ KILN_GUARDED_BY(mutex_){limits::kFailuresMax,
                                                      limits::kFailureBytesMax};
  SteadyTime sweep_at_
      KILN_GUARDED_BY(mutex_){};  // requests are not kept much longer than they count
  Gauge crashes_gauge_{"sources_quarantined",
                       "Kernels that crashed their compiler and are not compiled for now.",
                       [this] { return CrashCount(); }};
};

}  // namespace kiln
