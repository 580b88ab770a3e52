// A bounded map that drops the least recently used entry.
#pragma once

#include <cassert>
#include <list>
#include <unordered_map>
#include <utility>

#include "storage/base/digest.h"

namespace kiln {

// Values by key: at most `count_max` values of at most `bytes_max` bytes together, as the
// callers count bytes. Not thread-safe.
template <typename Value, typename Key = Digest, typename Hash = DigestHash>
class LruCache {
 public:
  LruCache(size_t count_max, size_t bytes_max) : count_max_(count_max), bytes_max_(bytes_max) {}

  // Counts as a use. Null where there is no value. Valid until the next change.
  Value* Find(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->value;
  }

  // Replaces an earlier value. Drops a value that exceeds the limit by itself.
  void Insert(const Key& key, Value value, size_t bytes) {
    Erase(key);
    if (bytes > bytes_max_ || count_max_ == 0) return;
    entries_.push_front({key, std::move(value), bytes});
    places_.emplace(key, entries_.begin());
    bytes_ += bytes;
    while (entries_.size() > count_max_ || bytes_ > bytes_max_) Erase(Key(entries_.back().key));
  }

  // False where there is no value.
  bool Erase(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return false;
    bytes_ -= found->second->bytes;
    entries_.erase(found->second);
    places_.erase(found);
    return true;
  }

  // Finds a value without counting it as a use.
  const Value* Peek(const Key& key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &found->second->value;
  }

  // The least recently used key. REQUIRES: not empty.
  const Key& Oldest() const {
    assert(!entries_.empty());
    return entries_.back().key;
  }

  // Calls visit(key, value) for each entry, the most recently used first.
  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const Entry& entry : entries_) visit(entry.key, entry.value);
  }

  // Erases every value for which `is_over` holds. Visits all values.
  template <typename Predicate>
  void EraseIf(Predicate is_over) {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto looked_at = entry++;
      if (is_over(std::as_const(looked_at->value))) Erase(Key(looked_at->key));
    }
  }

  void Clear() {
    places_.clear();
    entries_.clear();
    bytes_ = 0;
  }

  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Key key;
    Value value;
    size_t bytes;
  };
  using Entries = std::list<Entry>;

  const size_t count_max_;
  const size_t bytes_max_;
  size_t bytes_ = 0;
  Entries entries_;  // the most recently used first
  std::unordered_map<Key, typename Entries::iterator, Hash> places_;
};

}  // namespace kiln
