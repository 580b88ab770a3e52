// Kernels that crash compilers.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "daemon/kernel/compile_job.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/lru_cache.h"

namespace kiln {

// Which keys are not to be compiled for a while, and why. Bounded in number (the one whose time is
// over first makes room), and the requests that it keeps in bytes; lost with the process, like
// remembered failures. Thread-safe; does not block. The clock outlives it.
class Quarantine {
 public:
  struct Entry {
    std::string why;
    std::chrono::milliseconds left{};  // until it may be tried again
    CompileJobPtr job;                 // null where there was no room to keep it
  };

  // A `time` of 0 keeps nothing.
  Quarantine(std::chrono::milliseconds time, const Clock& clock);

  // Counts as a refusal where there is one.
  std::optional<Entry> Refuse(const Digest& key);
  // The same for whoever only wants to know.
  std::optional<Entry> Find(const Digest& key);
  void Add(const CompileJobPtr& job, std::string_view why);
  // False where the key is not in it.
  bool Lift(const Digest& key);
  // How many were in it.
  size_t LiftAll();

  size_t size() const;
  uint64_t refusals() const { return refusals_; }

 private:
  struct Kept {
    std::string why;
    SteadyTime until;
  };

  void ForgetThoseThatAreOver() const;

  const std::chrono::milliseconds time_;
  const Clock& clock_;
  std::atomic<uint64_t> refusals_ = 0;
  mutable std::mutex mutex_;
  mutable std::unordered_map<Digest, Kept, DigestHash> kept_;
  mutable LruCache<CompileJobPtr> jobs_;  // of those, where there is room
};

}  // namespace kiln
