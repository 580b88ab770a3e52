#include "storage/hot/recent_changes.h"

#include "storage/base/limits.h"

namespace kiln {

void RecentChanges::Note(const Digest& key, SteadyTime now) {
  changes_.push_back({key, now});
  last_[key] = now;
  DropOld(now);
}

bool RecentChanges::Contains(const Digest& key, SteadyTime now) const {
  const auto it = last_.find(key);
  return it != last_.end() && now - it->second < limits::kRecentChangesAge;
}

void RecentChanges::DropOld(SteadyTime now) {
  while (!changes_.empty()) {
    const Change& oldest = changes_.front();
    if (changes_.size() <= limits::kRecentChangesMax &&
        now - oldest.at < limits::kRecentChangesAge) {
      return;
    }
    const auto it = last_.find(oldest.key);
    if (it != last_.end() && it->second == oldest.at) last_.erase(it);
    changes_.pop_front();
  }
}

}  // namespace kiln
