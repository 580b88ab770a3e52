#include "storage/warm_leases.h"

#include <algorithm>
#include <utility>

#include "storage/base/byte_codec.h"
#include "storage/base/checksum.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr std::string_view kLeaseMagic = "KILNLSE\1";  // the last byte is the version
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

bool WarmLeases::Lease(uid_t uid, const Digest& key, uint64_t bytes) {
  if (IsOff()) return false;
  // Its user pays for it already, and loses nothing by a later end.
  if (Renew(key)) return true;
  const MutexLock lock(mutex_);
  if (!HasRoom(uid, bytes)) EraseEnded();
  if (!HasRoom(uid, bytes)) {
    refused_.Add(1);
    return false;
  }
  Add(key, {uid, bytes, NextEnd()});
  has_changed_ = true;
  return true;
}

bool WarmLeases::Renew(const Digest& key) {
  const MutexLock lock(mutex_);
  const auto known = entries_.find(key);
  if (known == entries_.end()) return false;
  known->second.end_unix_ms = std::max(known->second.end_unix_ms, NextEnd());
  has_changed_ = true;
  return true;
}

bool WarmLeases::Holds(const Digest& key) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.end_unix_ms > clock_.UnixMillis();
}

bool WarmLeases::HasRoom(uid_t uid, uint64_t bytes) const {
  const auto user = shares_.find(uid);
  const Share share = user == shares_.end() ? Share() : user->second;
  return share.bytes + bytes <= limits_.bytes_per_user_max &&
         share.entries < limits_.entries_per_user_max && bytes_ + bytes <= limits_.bytes_max &&
         entries_.size() < limits_.entries_max;
}

void WarmLeases::Add(const Digest& key, const Entry& entry) {
  // Two threads may lease one artifact at once.
  if (!entries_.emplace(key, entry).second) return;
  Share& share = shares_[entry.uid];
  share.bytes += entry.bytes;
  ++share.entries;
  bytes_ += entry.bytes;
  earliest_end_unix_ms_ = std::min(earliest_end_unix_ms_, entry.end_unix_ms);
}

void WarmLeases::EraseEnded() {
  const int64_t now = clock_.UnixMillis();
  if (now < earliest_end_unix_ms_) return;
  earliest_end_unix_ms_ = INT64_MAX;
  for (auto each = entries_.begin(); each != entries_.end();) {
    if (each->second.end_unix_ms > now) {
      earliest_end_unix_ms_ = std::min(earliest_end_unix_ms_, each->second.end_unix_ms);
      ++each;
      continue;
    }
    each = Erase(each);
  }
}

WarmLeases::Entries::iterator WarmLeases::Erase(Entries::iterator entry) {
  const auto user = shares_.find(entry->second.uid);
  user->second.bytes -= entry->second.bytes;
  if (--user->second.entries == 0) shares_.erase(user);
  bytes_ -= entry->second.bytes;
  return entries_.erase(entry);
}

void WarmLeases::OnRemove(const Digest& key) {
  const MutexLock lock(mutex_);
  const auto leased = entries_.find(key);
  if (leased == entries_.end()) return;
  Erase(leased);
  has_changed_ = true;
}

void WarmLeases::Save() {
  has_changed_ = false;
  ByteWriter writer;
  writer.Raw(kLeaseMagic);
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
  if (!text.starts_with(kLeaseMagic) ||
      ByteReader(text.substr(end)).Number<uint64_t>() != Checksum64(text.substr(0, end))) {
    return LogWarning("leases of warmed artifacts are damaged, or a newer kilnd's: none is kept",
                      {{"path", path_}});
  }
  // A shorter time holds for earlier leases, too.
  const int64_t end_max = clock_.UnixMillis() + limits_.time.count();
  ByteReader reader(text.substr(kLeaseMagic.size(), end - kLeaseMagic.size()));
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
