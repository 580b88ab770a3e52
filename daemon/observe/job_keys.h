// Which artifacts and which entries of own namespaces each user's job has asked for, for
// `kiln record --job` and `kiln export --job`.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

// Holds at most `keys_max` keys, and limits::kActivityJobsPerUserMax jobs of a user, since the
// daemon's start. For more, the user who has the most keys loses the job that was seen least
// recently. The only job of that user takes no more. Jobs without a name, or with one that is
// longer than limits::kActivityJobBytesMax, are not kept. Thread-safe; does not block. Note of a
// known key does not allocate.
class JobKeys {
 public:
  explicit JobKeys(size_t keys_max = limits::kJobKeysMax) : keys_max_(keys_max) {}

  // `has_source`: the user sent the source. Otherwise the user told of the key, which is public.
  void Note(uid_t uid, std::string_view job, const Digest& key, bool has_source);
  // Whether the job of any user has asked for it.
  bool HasAsked(std::string_view job, const Digest& key) const;
  // Whether the job of this user has.
  bool HasAsked(uid_t uid, std::string_view job, const Digest& key) const;
  // Whether the user has sent its source in any job.
  bool HasSent(uid_t uid, const Digest& key) const;

 private:
  struct Job {
    uint64_t last_seen = 0;                             // a count of calls
    std::unordered_map<Digest, bool, DigestHash> keys;  // with `has_source`
  };
  struct User {
    size_t keys = 0;
    std::map<std::string, Job, std::less<>> jobs;
  };

  void DropOldest(User& user) KILN_REQUIRES(mutex_);
  // Drops a job of who has the most keys; false where that is the only job of `uid`.
  bool MakeRoom(uid_t uid) KILN_REQUIRES(mutex_);

  const size_t keys_max_;
  mutable Mutex mutex_;
  uint64_t calls_ KILN_GUARDED_BY(mutex_) = 0;
  size_t count_ KILN_GUARDED_BY(mutex_) = 0;
  std::map<uid_t, User> users_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
