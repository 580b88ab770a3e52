#include "storage/warm_leases.h"

#include <algorithm>
#include <utility>

#include "storage/base/byte_codec.h"
#include "storage/base/checksum.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr std::string_view kMagic = "KILNLSE\1";  // the last byte is the version
constexpr size_t kRowBytesMax = 64;

}  // namespace

WarmLeaseLimits WarmLeaseLimits::Of(std::chrono::milliseconds time, uint64_t store_bytes_max) {
  return {.time = time,
          .bytes_per_user_max = store_bytes_max / limits::kLeasedBytesPerUserPart,
          .bytes_max = store_bytes_max / limits::kLeasedBytesPart};
}

WarmLeases::WarmLeases(std::string path, const WarmLeaseLimits& limits, Filesystem& filesystem,
                       const Clock& clock)
    : path_(std::move(path)), limits_(limits), filesystem_(filesystem), clock_(clock) {
  const auto text = filesystem_.Read(path_, kRowBytesMax * (limits_.entries_max + 1));
  const MutexLock lock(mutex_);
  if (text.ok()) Load(*text);
}

void WarmLeases::Lease(uid_t uid, const Digest& key, uint64_t bytes) {
  if (IsOff()) return;
  const Entry entry{uid, bytes, clock_.UnixMillis() + limits_.time.count()};
  const MutexLock lock(mutex_);
  const auto known = entries_.find(key);
  // Its user pays for it already, and loses nothing by a later end.
  if (known != entries_.end()) {
    known->second.end_unix_ms = std::max(known->second.end_unix_ms, entry.end_unix_ms);
  } else {
    if (!HasRoom(uid, bytes)) EraseEnded();
    if (!HasRoom(uid, bytes)) return;
    Add(key, entry);
  }
  has_changed_ = true;
}

bool WarmLeases::Holds(const Digest& key) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.end_unix_ms > clock_.UnixMillis();
}

bool WarmLeases::HasRoom(uid_t uid, uint64_t bytes) const {
  const auto user = bytes_of_users_.find(uid);
  const uint64_t of_user = user == bytes_of_users_.end() ? 0 : user->second;
  return of_user + bytes <= limits_.bytes_per_user_max && bytes_ + bytes <= limits_.bytes_max &&
         entries_.size() < limits_.entries_max;
}

void WarmLeases::Add(const Digest& key, const Entry& entry) {
  entries_.emplace(key, entry);
  bytes_of_users_[entry.uid] += entry.bytes;
  bytes_ += entry.bytes;
}

void WarmLeases::EraseEnded() {
  const int64_t now = clock_.UnixMillis();
  for (auto each = entries_.begin(); each != entries_.end();) {
    const Entry& entry = each->second;
    if (entry.end_unix_ms > now) {
      ++each;
      continue;
    }
    const auto user = bytes_of_users_.find(entry.uid);
    user->second -= entry.bytes;
    if (user->second == 0) bytes_of_users_.erase(user);
    bytes_ -= entry.bytes;
    each = entries_.erase(each);
  }
}

void WarmLeases::Save() {
  has_changed_ = false;
  ByteWriter writer;
  writer.Raw(kMagic);
  {
    const MutexLock lock(mutex_);
    EraseEnded();
    for (const auto& [key, entry] : entries_) {
      writer.Raw(key.Bytes());
      writer.Number(static_cast<uint32_t>(entry.uid));
      writer.Number(entry.bytes);
      writer.Number(entry.end_unix_ms);
    }
  }
  writer.Number(Checksum64(writer.bytes()));
  const std::string part = path_ + ".part";
  (void)filesystem_.Remove(part);
  absl::Status written = filesystem_.WriteNew(part, writer.bytes(), 0600);
  if (written.ok()) written = filesystem_.Rename(part, path_);
  if (!written.ok())
    LogWarning("leases of warmed artifacts not kept", {{"error", Message(written)}});
}

void WarmLeases::Load(std::string_view text) {
  const size_t end = text.size() - std::min(text.size(), sizeof(uint64_t));
  if (!text.starts_with(kMagic) ||
      ByteReader(text.substr(end)).Number<uint64_t>() != Checksum64(text.substr(0, end))) {
    return LogWarning("leases of warmed artifacts are damaged, or a newer kilnd's: none is kept",
                      {{"path", path_}});
  }
  // A shorter time holds for earlier leases, too.
  const int64_t end_max = clock_.UnixMillis() + limits_.time.count();
  ByteReader reader(text.substr(kMagic.size(), end - kMagic.size()));
  while (reader.ok() && !reader.AtEnd()) {
    const auto key = Digest::FromBytes(reader.Raw(Digest::kSizeBytes));
    Entry entry;
    entry.uid = reader.Number<uint32_t>();
    entry.bytes = reader.Number<uint64_t>();
    entry.end_unix_ms = std::min(reader.Number<int64_t>(), end_max);
    if (key.ok() && reader.ok() && HasRoom(entry.uid, entry.bytes)) Add(*key, entry);
  }
}

}  // namespace kiln
