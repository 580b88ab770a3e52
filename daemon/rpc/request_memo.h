// Requests that were seen before, byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/kernel/compile_job.h"
#include "storage/base/call_context.h"
#include "storage/base/lru_cache.h"
#include "storage/base/mutex.h"

namespace kiln {

// A request from the wire after resolution: all but its caller and its deadline.
struct PreparedRequest {
  CompileJobPtr job;
  Priority priority = Priority::kWaitingRank;
  std::string job_name;
};

// The ranks of a job ask for the same kernels in the same words, and so does the next job: most
// requests were seen before. Equal bytes mean the same request, so translation, validation and the
// SHA-256 over the source need not be done again; only equality counts, the hash just finds the
// candidate.
//
// The result depends on the request's bytes and on the daemon's toolchains: when these change,
// Clear. Holds at most `bytes_max`, forgets what was used least recently. Thread-safe; does not
// block.
class RequestMemo {
 public:
  explicit RequestMemo(size_t bytes_max);

  // Null where these bytes are not remembered.
  std::shared_ptr<const PreparedRequest> Find(std::string_view bytes);
  // `epoch` is that of the moment before the request was prepared: what was prepared before a Clear
  // is not remembered after it.
  void Remember(std::string_view bytes, std::shared_ptr<const PreparedRequest> prepared,
                uint64_t epoch);

  // Grows with every Clear.
  uint64_t epoch() const;
  // Forgets everything.
  void Clear();

 private:
  struct Entry {
    std::shared_ptr<const std::string> bytes;
    std::shared_ptr<const PreparedRequest> prepared;
  };

  uint64_t HashOf(std::string_view bytes) const;

  const size_t bytes_max_;
  const uint64_t seed_;
  mutable Mutex mutex_;
  uint64_t epoch_ KILN_GUARDED_BY(mutex_) = 0;
  LruCache<Entry, uint64_t, std::hash<uint64_t>> entries_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
