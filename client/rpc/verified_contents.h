// Contents that were found to be what their digests say.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "storage/base/digest.h"
#include "storage/base/lru_cache.h"

namespace kiln {

// A kernel's binary is asked for again and again, and hashing it takes a quarter of the time that
// the whole answer takes. Comparing it with a copy that was hashed before proves the same, twenty
// times as fast. Holds at most `bytes_max`, forgets what was used least recently; one content takes
// at most an eighth of that. Thread-safe; does not block.
class VerifiedContents {
 public:
  explicit VerifiedContents(size_t bytes_max);

  // Whether these bytes have this digest.
  [[nodiscard]] bool Matches(const Digest& digest, std::string_view content);

 private:
  const size_t content_bytes_max_;
  std::mutex mutex_;
  LruCache<std::shared_ptr<const std::string>> known_;
};

}  // namespace kiln
