#include "daemon/toolchain/file_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>
#include <utility>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// Take() does not wait for ever for a file that is written all the time.
constexpr int kAttemptsMax = 5;

// The file is gone, or the look failed: this process lacks descriptors or memory.
absl::Status WhyNot(int error_number, const std::string& path) {
  const bool is_gone = error_number == ENOENT || error_number == ENOTDIR;
  if (is_gone) return FailedPrecondition("{} is gone", path);
  return Unavailable("{}", Message(ErrnoStatus(error_number, "look at " + path)));
}

// Whether another change could still get the time of the last one.
bool IsFresh(const std::vector<ToolchainFile>& files, const Clock& clock) {
  constexpr int64_t kNanosPerMilli = 1'000'000;
  const int64_t now_ms = clock.UnixMillis();
  return std::any_of(files.begin(), files.end(), [&](const ToolchainFile& file) {
    const int64_t age_ms = now_ms - file.changed_ns / kNanosPerMilli;
    return age_ms >= 0 && age_ms <= limits::kFileTimeTick.count();
  });
}

bool IsStillThere(const ToolchainFile& directory) {
  const auto now = InspectIfThere(directory.path);
  return now.ok() && *now == directory;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FileSnapshot>> FileSnapshot::Take(SnapshotSource source,
                                                                       const Clock& clock) {
  FileListing listing;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(limits::kFileTimeTick);
    KILN_ASSIGN_OR_RETURN(listing, source.list());
    const bool is_fresh = IsFresh(listing.files, clock) || IsFresh(listing.directories, clock) ||
                          IsFresh(listing.others, clock);
    if (!is_fresh) break;
  }
  return std::shared_ptr<const FileSnapshot>(
      new FileSnapshot(std::move(source), std::move(listing), clock));
}

FileSnapshot::FileSnapshot(SnapshotSource source, FileListing listing, const Clock& clock)
    : source_(std::move(source)),
      clock_(clock),
      files_(std::move(listing.files)),
      others_(std::move(listing.others)),
      holders_(GroupFiles(/*are_headers=*/false)),
      header_holders_(GroupFiles(/*are_headers=*/true)),
      headers_compared_(clock.Now()) {
  Keep(std::move(listing.directories));
}

absl::Status FileSnapshot::Check() const {
  KILN_RETURN_IF_ERROR(CheckFiles(holders_));
  KILN_RETURN_IF_ERROR(CheckHeaders());
  KILN_RETURN_IF_ERROR(CheckOthers());
  return CheckDirectories();
}

std::vector<FileSnapshot::Holder> FileSnapshot::GroupFiles(bool are_headers) const {
  std::map<std::string, std::vector<const ToolchainFile*>> by_directory;
  for (const ToolchainFile& file : files_) {
    if (file.is_header != are_headers) continue;
    const std::string path = source_.prefix + file.path;
    by_directory[path.substr(0, path.rfind('/') + 1)].push_back(&file);
  }
  std::vector<Holder> holders;
  for (auto& [path, files] : by_directory) holders.push_back({path, std::move(files)});
  return holders;
}

absl::Status FileSnapshot::CheckFiles(const std::vector<Holder>& holders) const {
  struct stat now {};
  for (const Holder& holder : holders) {
    const UniqueFd directory(::open(holder.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return WhyNot(errno, holder.path);
    for (const ToolchainFile* file : holder.files) {
      const char* name = file->path.c_str() + (file->path.rfind('/') + 1);  // npos + 1 is 0
      if (::fstatat(directory.get(), name, &now, 0) != 0) {
        return WhyNot(errno, holder.path + name);
      }
      if (!IsStill(*file, now)) {
        return FailedPrecondition("{}{} is not as it was", holder.path, name);
      }
    }
  }
  return absl::OkStatus();
}

bool FileSnapshot::AreHeadersDue() const {
  const std::lock_guard lock(mutex_);
  return clock_.Now() - headers_compared_ >= kHeaderLookTime;
}

absl::Status FileSnapshot::CheckHeaders() const {
  if (header_holders_.empty() || !AreHeadersDue()) return absl::OkStatus();
  const SteadyTime began = clock_.Now();
  KILN_RETURN_IF_ERROR(CheckFiles(header_holders_));
  const std::lock_guard lock(mutex_);
  headers_compared_ = began;
  return absl::OkStatus();
}

absl::Status FileSnapshot::CheckOthers() const {
  for (const ToolchainFile& file : others_) {
    KILN_ASSIGN_OR_RETURN(const ToolchainFile now, InspectIfThere(file.path));
    if (now != file) return FailedPrecondition("{} is not as it was", file.path);
  }
  return absl::OkStatus();
}

absl::Status FileSnapshot::CheckDirectories() const {
  std::shared_ptr<const Directories> directories;
  {
    const std::lock_guard lock(mutex_);
    directories = directories_;
  }
  const bool are_same =
      directories != nullptr && std::all_of(directories->begin(), directories->end(), IsStillThere);
  if (are_same) return absl::OkStatus();
  // Something came or went that need not matter: bytecode, a directory with nothing in it yet.
  KILN_ASSIGN_OR_RETURN(FileListing now, source_.list());
  const auto [ours, theirs] =
      std::mismatch(files_.begin(), files_.end(), now.files.begin(), now.files.end());
  if (ours != files_.end() || theirs != now.files.end()) {
    return FailedPrecondition("{}{} is new or gone", source_.prefix,
                              theirs != now.files.end() ? theirs->path : ours->path);
  }
  Keep(std::move(now.directories));
  return absl::OkStatus();
}

void FileSnapshot::Keep(Directories directories) const {
  // A file that comes into a directory that has changed just now could leave it the same time.
  const bool is_final = !IsFresh(directories, clock_);
  auto kept = is_final ? std::make_shared<const Directories>(std::move(directories)) : nullptr;
  const std::lock_guard lock(mutex_);
  directories_ = std::move(kept);
}

}  // namespace kiln
