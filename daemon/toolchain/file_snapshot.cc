#include "daemon/toolchain/file_snapshot.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "storage/base/limits.h"

namespace kiln {
namespace {

// Take() does not wait for ever for a file that is written all the time.
constexpr int kAttemptsMax = 5;

// Whether another change could still get the time of the last one.
bool IsFresh(const std::vector<ToolchainFile>& files, const Clock& clock) {
  constexpr int64_t kNanosPerMilli = 1'000'000;
  const int64_t now_ms = clock.UnixMillis();
  return std::any_of(files.begin(), files.end(), [&](const ToolchainFile& file) {
    const int64_t age_ms = now_ms - file.identity.changed_ns / kNanosPerMilli;
    return age_ms >= 0 && age_ms <= limits::kFileTimeTick.count();
  });
}

bool IsStillThere(const ToolchainFile& directory) {
  const auto now = Identify(directory.path);
  return now.ok() && *now == directory.identity;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FileSnapshot>> FileSnapshot::Take(List list,
                                                                       const Clock& clock) {
  FileListing listing;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(limits::kFileTimeTick);
    KILN_ASSIGN_OR_RETURN(listing, list());
    if (!IsFresh(listing.files, clock) && !IsFresh(listing.directories, clock)) break;
  }
  return std::shared_ptr<const FileSnapshot>(
      new FileSnapshot(std::move(list), std::move(listing), clock));
}

FileSnapshot::FileSnapshot(List list, FileListing listing, const Clock& clock)
    : list_(std::move(list)),
      clock_(clock),
      files_(std::move(listing.files)),
      headers_compared_(clock.Now()) {
  Keep(std::move(listing.directories));
}

absl::Status FileSnapshot::Check() const {
  KILN_RETURN_IF_ERROR(CheckFiles(/*are_headers=*/false));
  KILN_RETURN_IF_ERROR(CheckHeaders());
  return CheckDirectories();
}

absl::Status FileSnapshot::CheckFiles(bool are_headers) const {
  for (const ToolchainFile& file : files_) {
    if (file.is_header != are_headers) continue;
    KILN_ASSIGN_OR_RETURN(const FileIdentity now, Identify(file.path));
    if (now == file.identity) continue;
    return FailedPrecondition("{} is {}", file.path,
                              now == FileIdentity() ? "gone" : "not as it was");
  }
  return absl::OkStatus();
}

absl::Status FileSnapshot::CheckHeaders() const {
  const SteadyTime began = clock_.Now();
  {
    const MutexLock lock(mutex_);
    if (began - headers_compared_ < kHeaderLookTime) return absl::OkStatus();
  }
  KILN_RETURN_IF_ERROR(CheckFiles(/*are_headers=*/true));
  const MutexLock lock(mutex_);
  headers_compared_ = began;
  return absl::OkStatus();
}

absl::Status FileSnapshot::CheckDirectories() const {
  std::shared_ptr<const Directories> directories;
  {
    const MutexLock lock(mutex_);
    directories = directories_;
  }
  const bool are_same =
      directories != nullptr && std::all_of(directories->begin(), directories->end(), IsStillThere);
  if (are_same) return absl::OkStatus();
  // Something came or went that need not matter: bytecode, a directory with nothing in it yet.
  KILN_ASSIGN_OR_RETURN(FileListing now, list_());
  const auto [ours, theirs] =
      std::mismatch(files_.begin(), files_.end(), now.files.begin(), now.files.end());
  if (ours != files_.end() || theirs != now.files.end()) {
    return FailedPrecondition("{} is new or gone",
                              theirs != now.files.end() ? theirs->path : ours->path);
  }
  Keep(std::move(now.directories));
  return absl::OkStatus();
}

void FileSnapshot::Keep(Directories directories) const {
  // A file that comes into a directory that has changed just now could leave it the same time.
  const bool is_final = !IsFresh(directories, clock_);
  auto kept = is_final ? std::make_shared<const Directories>(std::move(directories)) : nullptr;
  const MutexLock lock(mutex_);
  directories_ = std::move(kept);
}

}  // namespace kiln
