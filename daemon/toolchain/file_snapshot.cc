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

// A file that is written all the time cannot be waited for.
constexpr int kAttemptsMax = 5;

// Something was done to it, or this process lacks what it takes to look: descriptors, memory.
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

}  // namespace

absl::StatusOr<std::shared_ptr<const FileSnapshot>> FileSnapshot::Take(SealedFiles what,
                                                                       const Clock& clock) {
  FileListing listing;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(limits::kFileTimeTick);
    KILN_ASSIGN_OR_RETURN(listing, what.list());
    const bool is_fresh = IsFresh(listing.files, clock) || IsFresh(listing.places, clock) ||
                          IsFresh(listing.beside, clock);
    if (!is_fresh) break;
  }
  if (IsFresh(listing.beside, clock)) {
    return Unavailable(
        "something is done to its directories or links; they are looked at again soon");
  }
  return std::shared_ptr<const FileSnapshot>(
      new FileSnapshot(std::move(what), std::move(listing), clock));
}

FileSnapshot::FileSnapshot(SealedFiles what, FileListing listing, const Clock& clock)
    : what_(std::move(what)),
      clock_(clock),
      files_(std::move(listing.files)),
      beside_(std::move(listing.beside)),
      holders_(GroupFiles()) {
  Keep(std::move(listing.places));
}

absl::Status FileSnapshot::Check() const {
  KILN_RETURN_IF_ERROR(CheckFiles());
  KILN_RETURN_IF_ERROR(CheckBeside());
  return CheckPlaces();
}

std::vector<FileSnapshot::Holder> FileSnapshot::GroupFiles() const {
  std::map<std::string, std::vector<const ToolchainFile*>> by_directory;
  for (const ToolchainFile& file : files_) {
    const std::string path = what_.prefix + file.path;
    by_directory[path.substr(0, path.rfind('/') + 1)].push_back(&file);
  }
  std::vector<Holder> holders;
  for (auto& [path, files] : by_directory) holders.push_back({path, std::move(files)});
  return holders;
}

absl::Status FileSnapshot::CheckFiles() const {
  struct stat now {};
  for (const Holder& holder : holders_) {
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

absl::Status FileSnapshot::CheckBeside() const {
  for (const ToolchainFile& file : beside_) {
    KILN_ASSIGN_OR_RETURN(const bool is_same, IsStillBeside(file));
    if (!is_same) return FailedPrecondition("{} is not as it was", file.path);
  }
  return absl::OkStatus();
}

absl::Status FileSnapshot::CheckPlaces() const {
  std::shared_ptr<const Places> places;
  {
    const std::lock_guard lock(mutex_);
    places = places_;
  }
  if (places != nullptr && std::all_of(places->begin(), places->end(), IsStillSuch)) {
    return absl::OkStatus();
  }
  // Something came or went that need not matter: bytecode, a directory with nothing in it yet.
  KILN_ASSIGN_OR_RETURN(FileListing now, what_.list());
  const auto [ours, theirs] =
      std::mismatch(files_.begin(), files_.end(), now.files.begin(), now.files.end());
  if (ours != files_.end() || theirs != now.files.end()) {
    return FailedPrecondition("{}{} is new or gone", what_.prefix,
                              theirs != now.files.end() ? theirs->path : ours->path);
  }
  Keep(std::move(now.places));
  return absl::OkStatus();
}

void FileSnapshot::Keep(Places places) const {
  // What comes into a place that has changed just now could leave it the same time.
  const bool is_final = !IsFresh(places, clock_);
  auto kept = is_final ? std::make_shared<const Places>(std::move(places)) : nullptr;
  const std::lock_guard lock(mutex_);
  places_ = std::move(kept);
}

}  // namespace kiln
