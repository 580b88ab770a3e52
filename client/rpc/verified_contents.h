// Contents that match their digests.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "storage/base/digest.h"
#include "storage/base/lru_cache.h"
#include "storage/base/mutex.h"

namespace kiln {

// Processes ask for the same binaries again and again. Hashing a binary takes a quarter of the time
// of a whole call; comparing it with a verified copy is twenty times as fast. Holds at most
// `bytes_max` and evicts the least recently used; one content takes at most an eighth of that.
// Thread-safe; does not block.
class VerifiedContents {
 public:
  explicit VerifiedContents(size_t bytes_max)
      : content_bytes_max_(bytes_max / 8), known_(std::numeric_limits<size_t>::max(), bytes_max) {}

  // Whether these bytes have this digest.
  [[nodiscard]] bool Matches(const Digest& digest, std::string_view content) {
    std::shared_ptr<const std::string> known;
    {
      const MutexLock lock(mutex_);
      if (const auto* found = known_.Find(digest)) known = *found;
    }
    if (known != nullptr) return *known == content;
    if (Digest::Of(content) != digest) return false;
    if (content.size() <= content_bytes_max_) {
      known = std::make_shared<const std::string>(content);
      const MutexLock lock(mutex_);
      known_.Insert(digest, std::move(known), content.size());
    }
    return true;
  }

 private:
  const size_t content_bytes_max_;
  Mutex mutex_;
  LruCache<std::shared_ptr<const std::string>> known_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
