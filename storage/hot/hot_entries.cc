#include "storage/hot/hot_entries.h"

#include <algorithm>

namespace kiln {

const HotEntry* HotEntries::Find(const Digest& key) const {
  const auto it = by_key_.find(key);
  return it == by_key_.end() ? nullptr : &*it->second;
}

void HotEntries::Put(const HotEntry& entry) {
  Erase(entry.key);
  entries_.push_front(entry);
  by_key_.emplace(entry.key, entries_.begin());
  bytes_ += entry.size_bytes;
}

bool HotEntries::Touch(const Digest& key) {
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return false;
  entries_.splice(entries_.begin(), entries_, it->second);
  return true;
}

bool HotEntries::Erase(const Digest& key) {
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return false;
  bytes_ -= it->second->size_bytes;
  entries_.erase(it->second);
  by_key_.erase(it);
  return true;
}

std::vector<HotEntry> HotEntries::SortedByKey() const {
  std::vector<HotEntry> sorted(entries_.begin(), entries_.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const HotEntry& a, const HotEntry& b) { return a.key < b.key; });
  return sorted;
}

}  // namespace kiln
