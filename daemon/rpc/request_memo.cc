#include "daemon/rpc/request_memo.h"

#include <xxhash.h>

#include <random>
#include <utility>

#include "daemon/kernel/request_shape.h"

namespace kiln {
namespace {

// The bytes and what they come to, which may be far more: an empty parameter is two bytes on the
// wire.
size_t CostOf(std::string_view bytes, const PreparedRequest& prepared) {
  constexpr size_t kOverhead = 1024;  // the entry itself
  return bytes.size() + RequestBytes(prepared.job->request) + prepared.job_name.size() + kOverhead;
}

}  // namespace

RequestMemo::RequestMemo(size_t bytes_max)
    : bytes_max_(bytes_max), seed_(std::random_device{}()), entries_(SIZE_MAX, bytes_max) {}

uint64_t RequestMemo::HashOf(std::string_view bytes) const {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed_);
}

std::shared_ptr<const PreparedRequest> RequestMemo::Find(std::string_view bytes) {
  const uint64_t hash = HashOf(bytes);
  Entry candidate;
  {
    const MutexLock lock(mutex_);
    const Entry* const found = entries_.Find(hash);
    if (found == nullptr) return nullptr;
    candidate = *found;
  }
  return *candidate.bytes == bytes ? std::move(candidate.prepared) : nullptr;
}

void RequestMemo::Remember(std::string_view bytes, std::shared_ptr<const PreparedRequest> prepared,
                           uint64_t epoch) {
  const size_t cost = CostOf(bytes, *prepared);
  // One entry should not push out everything else.
  if (cost > bytes_max_ / 16) return;
  Entry entry{std::make_shared<const std::string>(bytes), std::move(prepared)};
  const MutexLock lock(mutex_);
  if (epoch == epoch_) entries_.Insert(HashOf(bytes), std::move(entry), cost);
}

uint64_t RequestMemo::epoch() const {
  const MutexLock lock(mutex_);
  return epoch_;
}

void RequestMemo::Clear() {
  const MutexLock lock(mutex_);
  ++epoch_;
  entries_.Clear();
}

}  // namespace kiln
