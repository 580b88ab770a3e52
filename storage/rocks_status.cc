#include "storage/rocks_status.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace kiln {
namespace {

// A file that is gone or a sector that does not read is damage; running out of descriptors is not.
bool IsDamage(const rocksdb::Status& status) {
  if (status.IsCorruption()) return true;
  if (!status.IsIOError()) return false;
  return status.IsPathNotFound() || status.ToString().find(std::strerror(EIO)) != std::string::npos;
}

}  // namespace

bool IsNoSpace(const rocksdb::Status& status) {
  return status.IsNoSpace() || status.ToString().find(std::strerror(EDQUOT)) != std::string::npos;
}

absl::Status FromRocks(const rocksdb::Status& status, std::string_view what) {
  const std::string words = status.ToString();
  if (IsNoSpace(status)) return ResourceExhausted("{}: {}", what, words);
  if (IsDamage(status)) return DataLoss("{}: {}", what, words);
  if (status.IsBusy() || status.IsTryAgain() || status.IsTimedOut() || status.IsIncomplete()) {
    return Unavailable("{}: {}", what, words);
  }
  return Internal("{}: {}", what, words);
}

}  // namespace kiln
