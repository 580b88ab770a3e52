// Hits in the hot directory that the daemon has not heard of.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

// Gathers hits, so that one call tells of many. Thread-safe; does not block.
class UnreportedUses {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // The uses to report now, which it then forgets. Without keys until there are many, or until the
  // first has waited for long. `saved_micros`: the time of the kernel's compile. `bytes`: read.
  // `is_warm`: a warm found it. Then all that is told together counts as warmed: few processes do
  // both.
  v1::NoteUsesRequest Add(const Digest& key, const std::string& job, uint64_t saved_micros,
                          uint64_t bytes, bool is_warm, Moment now) {
    const MutexLock lock(mutex_);
    is_warm_ = is_warm_ || is_warm;
    if (keys_.empty()) first_ = now;
    keys_.insert(key);
    v1::ToldHits& hits = hits_[job];
    hits.set_count(hits.count() + 1);
    hits.set_saved_micros(hits.saved_micros() + saved_micros);
    hits.set_bytes(hits.bytes() + bytes);
    const bool is_due =
        keys_.size() >= limits::kUnreportedUsesMax || hits_.size() >= limits::kToldHitsMax ||
        hits.count() >= limits::kToldHitCountMax || now - first_ >= limits::kUnreportedUsesTime;
    return is_due ? Take() : v1::NoteUsesRequest();
  }

  v1::NoteUsesRequest TakeAll() {
    const MutexLock lock(mutex_);
    return Take();
  }

 private:
  v1::NoteUsesRequest Take() KILN_REQUIRES(mutex_) {
    v1::NoteUsesRequest taken;
    taken.set_is_warm(std::exchange(is_warm_, false));
    for (const Digest& key : std::exchange(keys_, {})) taken.add_keys(std::string(key.Bytes()));
    for (auto& [job, hits] : std::exchange(hits_, {})) {
      hits.set_job(job);
      hits.set_place(v1::ToldHits::HOT);
      *taken.add_hits() = std::move(hits);
    }
    return taken;
  }

  Mutex mutex_;
  std::unordered_set<Digest, DigestHash> keys_ KILN_GUARDED_BY(mutex_);
  std::map<std::string, v1::ToldHits> hits_ KILN_GUARDED_BY(mutex_);  // by job
  bool is_warm_ KILN_GUARDED_BY(mutex_) = false;
  Moment first_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
