#include "daemon/observe/job_keys.h"

#include <algorithm>

namespace kiln {

void JobKeys::Note(uid_t uid, std::string_view job, const Digest& key, bool has_source) {
  if (job.empty() || job.size() > limits::kActivityJobBytesMax) return;
  const MutexLock lock(mutex_);
  if (const auto user = users_.find(uid); user != users_.end()) {
    if (const auto found = user->second.jobs.find(job); found != user->second.jobs.end()) {
      found->second.last_seen = ++calls_;
      if (const auto known = found->second.keys.find(key); known != found->second.keys.end()) {
        known->second = known->second || has_source;
        return;
      }
    }
  }
  if (count_ == keys_max_ && !MakeRoom(uid)) return;
  User& user = users_[uid];
  if (user.jobs.size() == limits::kActivityJobsPerUserMax && !user.jobs.contains(job)) {
    DropOldest(user);
  }
  Job& kept = user.jobs[std::string(job)];
  kept.last_seen = ++calls_;
  kept.keys.emplace(key, has_source);
  ++user.keys;
  ++count_;
}

bool JobKeys::HasAsked(std::string_view job, const Digest& key) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(users_, [&](const auto& entry) {
    const auto found = entry.second.jobs.find(job);
    return found != entry.second.jobs.end() && found->second.keys.contains(key);
  });
}

bool JobKeys::HasAsked(uid_t uid, std::string_view job, const Digest& key) const {
  const MutexLock lock(mutex_);
  const auto user = users_.find(uid);
  if (user == users_.end()) return false;
  const auto found = user->second.jobs.find(job);
  return found != user->second.jobs.end() && found->second.keys.contains(key);
}

bool JobKeys::HasSent(uid_t uid, const Digest& key) const {
  const MutexLock lock(mutex_);
  const auto user = users_.find(uid);
  return user != users_.end() && std::ranges::any_of(user->second.jobs, [&](const auto& entry) {
           const auto known = entry.second.keys.find(key);
           return known != entry.second.keys.end() && known->second;
         });
}

bool JobKeys::MakeRoom(uid_t uid) {
  const auto most =
      std::ranges::max_element(users_, {}, [](const auto& entry) { return entry.second.keys; });
  if (most->first == uid && most->second.jobs.size() == 1) return false;
  DropOldest(most->second);
  if (most->second.jobs.empty()) users_.erase(most);
  return true;
}

void JobKeys::DropOldest(User& user) {
  const auto oldest = std::ranges::min_element(
      user.jobs, {}, [](const auto& entry) { return entry.second.last_seen; });
  user.keys -= oldest->second.keys.size();
  count_ -= oldest->second.keys.size();
  user.jobs.erase(oldest);
}

}  // namespace kiln
