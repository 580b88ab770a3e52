// Remembers recently changed keys.
#pragma once

#include <cstddef>
#include <deque>
#include <unordered_map>

#include "storage/base/clock.h"
#include "storage/base/digest.h"

namespace kiln {

// Forgets a change after limits::kRecentChangesAge, or sooner when more than
// limits::kRecentChangesMax came after it. Not thread-safe; never blocks.
class RecentChanges {
 public:
  void Note(const Digest& key, SteadyTime now);
  bool Contains(const Digest& key, SteadyTime now) const;

 private:
  struct Change {
    Digest key;
    SteadyTime at;
  };
  void DropOld(SteadyTime now);

  std::deque<Change> changes_;  // oldest first; a key may be there more than once
  std::unordered_map<Digest, SteadyTime, DigestHash> last_;
};

}  // namespace kiln
