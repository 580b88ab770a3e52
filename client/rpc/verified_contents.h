// Contents that match their digests.
#pragma once

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
  explicit VerifiedContents(size_t bytes_max);

  // Whether these bytes have this digest.
  [[nodiscard]] bool Matches(const Digest& digest, std::string_view content);

 private:
  const size_t content_bytes_max_;
  Mutex mutex_;
  LruCache<std::shared_ptr<const std::string>> known_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
