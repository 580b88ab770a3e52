// What Kiln did for each user and job, for `kiln stats`. Survives restarts.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

// How a kernel came to its job. Numbered as in the file: append only.
enum class ActivityKind {
  kHot,     // read in the hot directory, as the client tells
  kOwn,     // found in the user's own namespace, as the client tells
  kMemory,  // hits of the daemon, by tier
  kDisk,
  kJoined,
  kCompiled,
  kFailed,  // does not compile, as found out then
  kWarmed,  // what a warm for the job got, in whatever way
  kMissed,  // of kCompiled: those after a warm for the job
};
inline constexpr size_t kActivityKinds = 9;

// How many kernels came in one way, what their compiles took when they were made, where these were
// spared, and the bytes of their artifacts.
struct ActivityCount {
  uint64_t kernels = 0;
  uint64_t saved_micros = 0;
  uint64_t bytes = 0;

  bool operator==(const ActivityCount&) const = default;
};
using ActivityCounts = std::array<ActivityCount, kActivityKinds>;

struct JobActivity {
  uid_t uid = 0;
  std::string job;
  ActivityCounts counts{};
  int64_t last_unix_ms = 0;

  const ActivityCount& Of(ActivityKind kind) const { return counts[static_cast<size_t>(kind)]; }
};

// All users' jobs on one day.
struct DayActivity {
  int64_t day = 0;  // since 1970, UTC
  ActivityCounts counts{};
};

// Bounded (limits.h): of each user the jobs seen last, the earlier ones added up as kEarlierJobs;
// users beyond the limit added up under kOtherUsers; the last days. A user's jobs take no place
// from another user's, so nobody can push others out.
//
// Note of a known job takes no lock and does not allocate: every hit notes. Thread-safe. Save
// blocks as a disk does.
class Activity {
 public:
  static constexpr std::string_view kEarlierJobs = "(earlier jobs)";
  static constexpr uid_t kOtherUsers = static_cast<uid_t>(-1);  // no user has it

  // Reads the file, where there is one that is whole. The filesystem and the clock outlive this.
  Activity(std::string path, Filesystem& filesystem, const Clock& clock);
  ~Activity();

  // Adds to the job of a user. The job's name is cut to limits::kActivityJobBytesMax.
  void Note(uid_t uid, std::string_view job, ActivityKind kind, const ActivityCount& more = {1});
  // Whether a warm by this user, or by root, got anything for the job. A job without a name is
  // everything that has none, so it counts as not warmed.
  bool IsWarmed(uid_t uid, std::string_view job) const;

  // Rows of one user, or of all; in no order.
  std::vector<JobActivity> List(std::optional<uid_t> uid = std::nullopt) const;
  // The days with anything, the earliest first.
  std::vector<DayActivity> Days() const;
  // When counting began, ever.
  int64_t since_unix_ms() const { return since_unix_ms_; }

  // Whether anything was noted since the last Save.
  bool HasChanged() const { return has_changed_; }
  // Logs where it fails.
  void Save();

 private:
  struct Counts;
  struct Row;
  struct User;
  struct Day;

  User* Find(uid_t uid) const;
  User& FindOrAdd(uid_t uid);
  Day& FindOrBegin(int64_t day);
  // `text` is the file's.
  void Load(std::string_view text);

  const std::string path_;
  Filesystem& filesystem_;
  const Clock& clock_;
  int64_t since_unix_ms_;
  std::atomic<bool> has_changed_ = false;

  Mutex mutex_;  // for who adds a user, or begins a day
  std::atomic<size_t> count_ = 0;
  // By uid, from a place on that the uid decides. Users stay until the end, so readers take no
  // lock.
  std::array<std::atomic<User*>, 2 * limits::kActivityUsersMax> users_{};
  const std::unique_ptr<User> others_;
  // A day's place is its number modulo their count.
  const std::unique_ptr<std::array<Day, limits::kActivityDaysMax>> days_;
};

}  // namespace kiln
