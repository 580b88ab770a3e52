// Sources that are known not to compile.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "daemon/kernel/compile_job.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/lru_cache.h"

namespace kiln {

// Remembers deterministic failures for a while, so that a job that keeps asking does not keep
// compiling. Bounded in number, bytes (of the requests, whole) and time; lost with the process.
// Without their requests they are known for longer, bounded in number and bytes, for whoever is not
// to compile and would learn nothing otherwise.
// Thread-safe. The clock outlives it.
class FailureCache {
 public:
  FailureCache(const Clock& clock, std::chrono::nanoseconds time_to_live);

  struct Remembered {
    std::shared_ptr<const CompileFailure> failure;
    CompileJobPtr job;
  };

  // Null where none is remembered, or no longer.
  std::shared_ptr<const CompileFailure> Find(const Digest& key);
  // The same, however long ago it was; null where it was never seen, or others have taken its
  // place.
  std::shared_ptr<const CompileFailure> FindOfAnyAge(const Digest& key);
  // What Find() says, with the request that failed.
  std::optional<Remembered> FindWithRequest(const Digest& key);
  // Does nothing for a failure that another try might not repeat.
  void Remember(const CompileJobPtr& job, std::shared_ptr<const CompileFailure> failure);
  void Forget(const Digest& key);

 private:
  struct Entry {
    Remembered remembered;
    SteadyTime expires_at;
  };

  const Clock& clock_;
  const std::chrono::nanoseconds time_to_live_;
  std::mutex mutex_;
  LruCache<Entry> entries_;
  LruCache<std::shared_ptr<const CompileFailure>> known_;
  SteadyTime sweep_at_{};  // nothing is kept much longer than it counts
};

}  // namespace kiln
