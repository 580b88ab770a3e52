#include "daemon/observe/activity.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "storage/base/byte_codec.h"
#include "storage/base/checksum.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kMagic = "KILNACT\2";  // the last byte is the version
constexpr size_t kFileBytesMax = 16 * limits::kMiB;
constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr int64_t kDayMillis = milliseconds(std::chrono::days(1)).count();

// Only for telling the jobs of one user apart, and never 0.
uint64_t HashOf(std::string_view job) { return std::hash<std::string_view>()(job) | 1; }

// Cut at the end of a character.
std::string_view Cut(std::string_view job) {
  if (job.size() <= limits::kActivityJobBytesMax) return job;
  size_t size = limits::kActivityJobBytesMax;
  while (size > 0 && (static_cast<unsigned char>(job[size]) & 0xc0) == 0x80) --size;
  return job.substr(0, size);
}

void Write(const ActivityCounts& counts, ByteWriter& writer) {
  for (const ActivityCount& count : counts) {
    writer.Number(count.kernels);
    writer.Number(count.saved_micros);
    writer.Number(count.bytes);
  }
}

ActivityCounts ReadCounts(ByteReader& reader) {
  ActivityCounts counts;
  for (ActivityCount& count : counts) {
    count.kernels = reader.Number<uint64_t>();
    count.saved_micros = reader.Number<uint64_t>();
    count.bytes = reader.Number<uint64_t>();
  }
  return counts;
}

}  // namespace

struct Activity::Counts {
  struct Count {
    std::atomic<uint64_t> kernels = 0;
    std::atomic<uint64_t> saved_micros = 0;
    std::atomic<uint64_t> bytes = 0;
  };

  void Add(ActivityKind kind, const ActivityCount& more) {
    Count& count = counts[static_cast<size_t>(kind)];
    count.kernels.fetch_add(more.kernels, kRelaxed);
    if (more.saved_micros > 0) count.saved_micros.fetch_add(more.saved_micros, kRelaxed);
    if (more.bytes > 0) count.bytes.fetch_add(more.bytes, kRelaxed);
  }
  void Add(const ActivityCounts& more) {
    for (size_t i = 0; i < kActivityKinds; ++i) Add(static_cast<ActivityKind>(i), more[i]);
  }
  ActivityCounts Read() const {
    ActivityCounts read;
    for (size_t i = 0; i < kActivityKinds; ++i) {
      const Count& count = counts[i];
      read[i] = {count.kernels.load(kRelaxed), count.saved_micros.load(kRelaxed),
                 count.bytes.load(kRelaxed)};
    }
    return read;
  }
  // What they are; they are then 0.
  ActivityCounts Take() {
    ActivityCounts taken;
    for (size_t i = 0; i < kActivityKinds; ++i) {
      Count& count = counts[i];
      taken[i] = {count.kernels.exchange(0, kRelaxed), count.saved_micros.exchange(0, kRelaxed),
                  count.bytes.exchange(0, kRelaxed)};
    }
    return taken;
  }

  std::array<Count, kActivityKinds> counts;
};

struct Activity::Day {
  std::atomic<int64_t> day = 0;
  Counts counts;
};

// A row is used again for another job of the same user. Whoever has found it just before counts for
// that job, then.
struct Activity::Row {
  std::atomic<uint64_t> hash = 0;  // of the job's name; 0: unused
  Counts counts;
  std::atomic<int64_t> last_unix_ms = 0;
  std::string job;  // guarded by the user's mutex

  void Add(const ActivityCounts& more, int64_t more_last_unix_ms) {
    counts.Add(more);
    last_unix_ms.store(std::max(last_unix_ms.load(kRelaxed), more_last_unix_ms), kRelaxed);
  }
};

struct Activity::User {
  explicit User(uid_t its_uid) : uid(its_uid) {
    Row& earlier = rows[0];
    earlier.job = kEarlierJobs;
    earlier.hash = HashOf(kEarlierJobs);
  }

  // Null where the job has no row.
  Row* Find(uint64_t hash) {
    const auto found =
        std::ranges::find_if(rows, [&](const Row& row) { return row.hash.load(kRelaxed) == hash; });
    return found == rows.end() ? nullptr : &*found;
  }

  // A job without a row gets the row that was unused, or used least recently.
  Row& FindOrAdd(std::string_view job) {
    const uint64_t hash = HashOf(job);
    const MutexLock lock(mutex);
    if (Row* found = Find(hash)) return *found;
    Row& oldest = *std::min_element(rows.begin() + 1, rows.end(), [](const Row& a, const Row& b) {
      return a.last_unix_ms.load(kRelaxed) < b.last_unix_ms.load(kRelaxed);
    });
    oldest.hash = 0;
    rows[0].Add(oldest.counts.Take(), oldest.last_unix_ms.exchange(0, kRelaxed));
    oldest.job = job;
    oldest.hash = hash;
    return oldest;
  }

  const uid_t uid;
  Mutex mutex;  // for who gives a row to a job, and who reads names
  // The first is of earlier jobs.
  std::array<Row, 1 + limits::kActivityJobsPerUserMax> rows;
};

Activity::Activity(std::string path, Filesystem& filesystem, const Clock& clock)
    : path_(std::move(path)),
      filesystem_(filesystem),
      clock_(clock),
      since_unix_ms_(clock.UnixMillis()),
      others_(std::make_unique<User>(kOtherUsers)),
      days_(std::make_unique<std::array<Day, limits::kActivityDaysMax>>()) {
  const auto text = filesystem_.Read(path_, kFileBytesMax);
  if (text.ok()) Load(*text);
}

Activity::~Activity() {
  for (const auto& user : users_) delete user.load();
}

void Activity::Note(uid_t uid, std::string_view job, ActivityKind kind, const ActivityCount& more) {
  job = Cut(job);
  User* user = Find(uid);
  if (user == nullptr && count_ == limits::kActivityUsersMax) user = others_.get();
  if (user == nullptr) user = &FindOrAdd(uid);
  Row* row = user->Find(HashOf(job));
  if (row == nullptr) row = &user->FindOrAdd(job);
  const int64_t now_unix_ms = clock_.UnixMillis();
  row->counts.Add(kind, more);
  row->last_unix_ms.store(now_unix_ms, kRelaxed);
  FindOrBegin(now_unix_ms / kDayMillis).counts.Add(kind, more);
  if (!has_changed_.load(kRelaxed)) has_changed_ = true;
}

bool Activity::IsWarmed(uid_t uid, std::string_view job) const {
  if (job.empty()) return false;
  for (const uid_t who : {uid, uid_t{0}}) {
    User* const user = Find(who);
    Row* const row = user == nullptr ? nullptr : user->Find(HashOf(Cut(job)));
    if (row == nullptr) continue;
    const auto& warmed = row->counts.counts[static_cast<size_t>(ActivityKind::kWarmed)];
    if (warmed.kernels.load(kRelaxed) > 0) return true;
  }
  return false;
}

Activity::Day& Activity::FindOrBegin(int64_t day) {
  Day& found = (*days_)[static_cast<size_t>(day) % days_->size()];
  if (found.day.load(std::memory_order_acquire) == day) return found;
  const MutexLock lock(mutex_);
  if (found.day.load(kRelaxed) != day) {
    (void)found.counts.Take();
    found.day.store(day, std::memory_order_release);
  }
  return found;
}

Activity::User* Activity::Find(uid_t uid) const {
  for (size_t i = 0; i < users_.size(); ++i) {
    User* const user = users_[(uid + i) % users_.size()].load(std::memory_order_acquire);
    if (user == nullptr || user->uid == uid) return user;
  }
  return nullptr;
}

Activity::User& Activity::FindOrAdd(uid_t uid) {
  const MutexLock lock(mutex_);
  if (User* const known = Find(uid)) return *known;
  if (count_ == limits::kActivityUsersMax) return *others_;
  ++count_;
  size_t place = uid % users_.size();
  while (users_[place] != nullptr) place = (place + 1) % users_.size();
  auto* const user = new User(uid);
  users_[place].store(user, std::memory_order_release);
  return *user;
}

std::vector<JobActivity> Activity::List(std::optional<uid_t> uid) const {
  std::vector<JobActivity> listed;
  const auto add = [&](User& user) {
    const MutexLock lock(user.mutex);
    for (const Row& row : user.rows) {
      JobActivity one{user.uid, row.job, row.counts.Read(), row.last_unix_ms};
      if (one.last_unix_ms > 0) listed.push_back(std::move(one));
    }
  };
  for (const auto& place : users_) {
    User* const user = place.load(std::memory_order_acquire);
    if (user != nullptr && (!uid || *uid == user->uid)) add(*user);
  }
  if (!uid) add(*others_);
  return listed;
}

std::vector<DayActivity> Activity::Days() const {
  std::vector<DayActivity> days;
  for (const Day& day : *days_) {
    if (day.day != 0) days.push_back({day.day, day.counts.Read()});
  }
  std::ranges::sort(days, {}, &DayActivity::day);
  return days;
}

void Activity::Save() {
  has_changed_ = false;
  ByteWriter writer;
  writer.Raw(kMagic);
  writer.Number(since_unix_ms_);
  const std::vector<DayActivity> days = Days();
  writer.Number(static_cast<uint32_t>(days.size()));
  for (const DayActivity& one : days) {
    writer.Number(one.day);
    Write(one.counts, writer);
  }
  for (const JobActivity& one : List()) {
    writer.Number(static_cast<uint32_t>(one.uid));
    writer.String(one.job);
    Write(one.counts, writer);
    writer.Number(one.last_unix_ms);
  }
  writer.Number(Checksum64(writer.bytes()));
  const std::string part = path_ + ".part";
  (void)filesystem_.Remove(part);
  absl::Status written = filesystem_.WriteNew(part, writer.bytes(), 0600);
  if (written.ok()) written = filesystem_.Rename(part, path_);
  if (!written.ok()) LogWarning("totals of jobs not kept", {{"error", Message(written)}});
}

void Activity::Load(std::string_view text) {
  const size_t end = text.size() - std::min(text.size(), sizeof(uint64_t));
  if (!text.starts_with(kMagic) ||
      ByteReader(text.substr(end)).Number<uint64_t>() != Checksum64(text.substr(0, end))) {
    return LogWarning("totals of jobs are damaged, or another version's: counting begins anew",
                      {{"path", path_}});
  }
  ByteReader reader(text.substr(kMagic.size(), end - kMagic.size()));
  since_unix_ms_ = reader.Number<int64_t>();
  const auto day_count = std::min<uint64_t>(reader.Number<uint32_t>(), days_->size());
  for (uint64_t i = 0; i < day_count; ++i) {
    Day& day = FindOrBegin(reader.Number<int64_t>());
    day.counts.Add(ReadCounts(reader));
  }
  std::vector<JobActivity> jobs;
  std::map<uid_t, int64_t> last_uses;
  while (reader.ok() && !reader.AtEnd()) {
    JobActivity& one = jobs.emplace_back();
    one.uid = reader.Number<uint32_t>();
    one.job = reader.String();
    one.counts = ReadCounts(reader);
    one.last_unix_ms = reader.Number<int64_t>();
    last_uses[one.uid] = std::max(last_uses[one.uid], one.last_unix_ms);
  }
  const int64_t now = clock_.UnixMillis();
  for (const JobActivity& one : jobs) {
    const bool is_other = one.uid == kOtherUsers ||
                          now - last_uses[one.uid] > milliseconds(limits::kActivityAge).count();
    User& user = is_other ? *others_ : FindOrAdd(one.uid);
    user.FindOrAdd(is_other ? kEarlierJobs : one.job).Add(one.counts, one.last_unix_ms);
  }
}

}  // namespace kiln
