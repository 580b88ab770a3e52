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

RequestMemo::RequestMemo(size_t bytes_max) : bytes_max_(bytes_max), seed_(std::random_device{}()) {}

uint64_t RequestMemo::HashOf(std::string_view bytes) const {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed_);
}

std::shared_ptr<const PreparedRequest> RequestMemo::Find(std::string_view bytes) {
  const uint64_t hash = HashOf(bytes);
  Entry candidate;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    candidate = *found->second;
  }
  return *candidate.bytes == bytes ? std::move(candidate.prepared) : nullptr;
}

void RequestMemo::Remember(std::string_view bytes, std::shared_ptr<const PreparedRequest> prepared,
                           uint64_t epoch) {
  const size_t cost = CostOf(bytes, *prepared);
  // One entry should not push out everything else.
  if (cost > bytes_max_ / 16) return;
  Entry entry{HashOf(bytes), std::make_shared<const std::string>(bytes), std::move(prepared), cost};
  const std::lock_guard lock(mutex_);
  if (epoch != epoch_) return;
  if (const auto old = by_hash_.find(entry.hash); old != by_hash_.end()) Forget(old->second);
  bytes_ += cost;
  entries_.push_front(std::move(entry));
  by_hash_.emplace(entries_.front().hash, entries_.begin());
  while (bytes_ > bytes_max_) Forget(std::prev(entries_.end()));
}

uint64_t RequestMemo::epoch() const {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

void RequestMemo::Clear() {
  Entries forgotten;  // dies under no lock
  const std::lock_guard lock(mutex_);
  ++epoch_;
  by_hash_.clear();
  forgotten.swap(entries_);
  bytes_ = 0;
}

void RequestMemo::Forget(Entries::iterator entry) {
  bytes_ -= entry->cost;
  by_hash_.erase(entry->hash);
  entries_.erase(entry);
}

}  // namespace kiln
