#include "client/rpc/verified_contents.h"

#include <limits>

namespace kiln {

VerifiedContents::VerifiedContents(size_t bytes_max)
    : content_bytes_max_(bytes_max / 8), known_(std::numeric_limits<size_t>::max(), bytes_max) {}

bool VerifiedContents::Matches(const Digest& digest, std::string_view content) {
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

}  // namespace kiln
