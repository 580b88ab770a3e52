#include "storage/rocks/rocks_status.h"

#include <cassert>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string>

namespace kiln {
namespace {

// RocksDB keeps errno only as text.
bool Says(const std::string& words, std::initializer_list<int> error_numbers) {
  for (const int number : error_numbers) {
    if (words.find(std::strerror(number)) != std::string::npos) return true;
  }
  return false;
}

// A missing file, another kind of file in its place, and an unreadable sector are damage. A lack of
// descriptors is not.
bool IsDamage(const rocksdb::Status& status) {
  if (status.IsCorruption()) return true;
  if (!status.IsIOError()) return false;
  return status.IsPathNotFound() || Says(status.ToString(), {EIO, EISDIR, ELOOP});
}

}  // namespace

// A write that waits for a failed flush gets the flush's error as text.
bool IsNoSpace(const rocksdb::Status& status) {
  return status.IsNoSpace() || Says(status.ToString(), {ENOSPC, EDQUOT});
}

absl::Status FromRocks(const rocksdb::Status& status, std::string_view what) {
  assert(!status.ok());
  const std::string words = status.ToString();
  if (IsNoSpace(status)) return ResourceExhausted("{}: {}", what, words);
  if (IsDamage(status)) return DataLoss("{}: {}", what, words);
  if (status.IsMemoryLimit() || Says(words, {ENOMEM, EMFILE, ENFILE})) {
    return ResourceExhausted("{}: {}", what, words);
  }
  if (Says(words, {EACCES, EPERM, EROFS})) return PermissionDenied("{}: {}", what, words);
  if (status.IsBusy() || status.IsTryAgain() || status.IsTimedOut() || status.IsIncomplete() ||
      Says(words, {EAGAIN})) {
    return Unavailable("{}: {}", what, words);
  }
  return Internal("{}: {}", what, words);
}

}  // namespace kiln
