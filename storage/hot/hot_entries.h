// What a hot directory holds, and what of it goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "storage/base/digest.h"

namespace kiln {

struct HotEntry {
  Digest key;
  Digest binary;  // content of the published stage
  uint64_t size_bytes = 0;
};

// Entries in the order of their last use. Not thread-safe; never blocks.
class HotEntries {
 public:
  // Null where there is none. Valid until the next change.
  const HotEntry* Find(const Digest& key) const;
  // As the most recently used, in place of an earlier one of that key.
  void Put(const HotEntry& entry);
  // False where there is none.
  bool Touch(const Digest& key);
  bool Erase(const Digest& key);
  // The least recently used. REQUIRES: not empty.
  const HotEntry& Oldest() const { return entries_.back(); }
  std::vector<HotEntry> SortedByKey() const;

  size_t size() const { return by_key_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  std::list<HotEntry> entries_;  // most recently used first
  std::unordered_map<Digest, std::list<HotEntry>::iterator, DigestHash> by_key_;
  uint64_t bytes_ = 0;
};

}  // namespace kiln
