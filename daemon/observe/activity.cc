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

constexpr std::string_view kMagic = "KILNACT\1";  // the last byte is the version
constexpr size_t kFileBytesMax = 16 * limits::kMiB;
constexpr auto kRelaxed = std::memory_order_relaxed;

// Only for telling the jobs of one user apart, and never 0.
uint64_t HashOf(std::string_view job) { return std::hash<std::string_view>()(job) | 1; }

// Cut at the end of a character.
std::string_view Cut(std::string_view job) {
  if (job.size() <= limits::kActivityJobBytesMax) return job;
  size_t size = limits::kActivityJobBytesMax;
  while (size > 0 && (static_cast<unsigned char>(job[size]) & 0xc0) == 0x80) --size;
  return job.substr(0, size);
}

}  // namespace

// A row is used again for another job of the same user. Whoever has found it just before counts for
// that job, then.
struct Activity::Row {
  std::atomic<uint64_t> hash = 0;  // of the job's name; 0: unused
  std::array<std::atomic<uint64_t>, kActivityKinds> counts{};
  std::atomic<uint64_t> saved_micros = 0;
  std::atomic<int64_t> last_unix_ms = 0;
  std::string job;  // guarded by the user's mutex

  void Add(const JobActivity& more) {
    for (size_t i = 0; i < kActivityKinds; ++i) counts[i].fetch_add(more.counts[i], kRelaxed);
    saved_micros.fetch_add(more.saved_micros, kRelaxed);
    last_unix_ms.store(std::max(last_unix_ms.load(kRelaxed), more.last_unix_ms), kRelaxed);
  }
  // What it holds; it then holds nothing.
  JobActivity Take() {
    JobActivity taken;
    for (size_t i = 0; i < kActivityKinds; ++i) taken.counts[i] = counts[i].exchange(0, kRelaxed);
    taken.saved_micros = saved_micros.exchange(0, kRelaxed);
    taken.last_unix_ms = last_unix_ms.exchange(0, kRelaxed);
    return taken;
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
    rows[0].Add(oldest.Take());
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
      others_(std::make_unique<User>(kOtherUsers)) {
  const auto text = filesystem_.Read(path_, kFileBytesMax);
  if (text.ok()) Load(*text);
}

Activity::~Activity() {
  for (const auto& user : users_) delete user.load();
}

void Activity::Note(uid_t uid, std::string_view job, ActivityKind kind, uint64_t count,
                    uint64_t saved_micros) {
  job = Cut(job);
  User* user = Find(uid);
  if (user == nullptr && count_ == limits::kActivityUsersMax) user = others_.get();
  if (user == nullptr) user = &FindOrAdd(uid);
  Row* row = user->Find(HashOf(job));
  if (row == nullptr) row = &user->FindOrAdd(job);
  row->counts[static_cast<size_t>(kind)].fetch_add(count, kRelaxed);
  if (saved_micros > 0) row->saved_micros.fetch_add(saved_micros, kRelaxed);
  row->last_unix_ms.store(clock_.UnixMillis(), kRelaxed);
  if (!has_changed_.load(kRelaxed)) has_changed_ = true;
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
      JobActivity one{user.uid, row.job, {}, row.saved_micros, row.last_unix_ms};
      for (size_t i = 0; i < kActivityKinds; ++i) one.counts[i] = row.counts[i];
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

void Activity::Save() {
  has_changed_ = false;
  ByteWriter writer;
  writer.Raw(kMagic);
  writer.Number(since_unix_ms_);
  for (const JobActivity& one : List()) {
    writer.Number(static_cast<uint32_t>(one.uid));
    writer.String(one.job);
    for (const uint64_t count : one.counts) writer.Number(count);
    writer.Number(one.saved_micros);
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
    return LogWarning("totals of jobs are damaged, or a newer kilnd's: counting begins anew",
                      {{"path", path_}});
  }
  ByteReader reader(text.substr(kMagic.size(), end - kMagic.size()));
  since_unix_ms_ = reader.Number<int64_t>();
  std::vector<JobActivity> jobs;
  std::map<uid_t, int64_t> last_uses;
  while (reader.ok() && !reader.AtEnd()) {
    JobActivity& one = jobs.emplace_back();
    one.uid = reader.Number<uint32_t>();
    one.job = reader.String();
    for (uint64_t& count : one.counts) count = reader.Number<uint64_t>();
    one.saved_micros = reader.Number<uint64_t>();
    one.last_unix_ms = reader.Number<int64_t>();
    last_uses[one.uid] = std::max(last_uses[one.uid], one.last_unix_ms);
  }
  const int64_t now = clock_.UnixMillis();
  for (const JobActivity& one : jobs) {
    const bool is_other = one.uid == kOtherUsers ||
                          now - last_uses[one.uid] > milliseconds(limits::kActivityAge).count();
    User& user = is_other ? *others_ : FindOrAdd(one.uid);
    user.FindOrAdd(is_other ? kEarlierJobs : one.job).Add(one);
  }
}

}  // namespace kiln
