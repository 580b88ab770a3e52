#include "daemon/toolchain/file_seal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// A file that is written all the time cannot be waited for.
constexpr int kAttemptsMax = 5;

// Something was done to it, or this process lacks what it takes to look: descriptors, memory.
absl::Status WhyNot(int error_number, const std::string& path) {
  const bool is_gone = error_number == ENOENT || error_number == ENOTDIR;
  if (is_gone) return FailedPrecondition("{} is gone", path);
  return Unavailable("{}", Message(ErrnoStatus(error_number, "look at " + path)));
}

// Those that are there; what is gone shows by being missing.
std::vector<ToolchainFile> InspectDirectories(const std::vector<std::string>& paths) {
  std::vector<ToolchainFile> found;
  for (const std::string& path : paths) {
    auto directory = InspectDirectory(path);
    if (directory.ok()) found.push_back(*std::move(directory));
  }
  return found;
}

// Whether another change could still get the time of the last one.
bool IsFresh(const std::vector<ToolchainFile>& files) {
  const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  const int64_t tick = std::chrono::nanoseconds(limits::kFileTimeTick).count();
  return std::any_of(files.begin(), files.end(), [&](const ToolchainFile& file) {
    return file.changed_ns <= now && now - file.changed_ns < tick;
  });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const FileSeal>> FileSeal::Take(SealedFiles what) {
  std::vector<ToolchainFile> directories;
  std::vector<ToolchainFile> files;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(limits::kFileTimeTick);
    // Directories first: what is added from then on shows in them.
    directories = InspectDirectories(what.directories);
    KILN_ASSIGN_OR_RETURN(files, what.list());
    if (!IsFresh(files) && !IsFresh(directories)) break;
  }
  return std::shared_ptr<const FileSeal>(
      new FileSeal(std::move(what), std::move(files), std::move(directories)));
}

FileSeal::FileSeal(SealedFiles what, std::vector<ToolchainFile> files,
                   std::vector<ToolchainFile> directories)
    : what_(std::move(what)),
      files_(std::move(files)),
      holders_(GroupFiles()),
      directories_(std::move(directories)) {}

absl::Status FileSeal::Check() const {
  KILN_RETURN_IF_ERROR(CheckFiles());
  return CheckDirectories();
}

std::vector<FileSeal::Holder> FileSeal::GroupFiles() const {
  std::map<std::string, std::vector<const ToolchainFile*>> by_directory;
  for (const ToolchainFile& file : files_) {
    const std::string path = what_.prefix + file.path;
    by_directory[path.substr(0, path.rfind('/') + 1)].push_back(&file);
  }
  std::vector<Holder> holders;
  for (auto& [path, files] : by_directory) holders.push_back({path, std::move(files)});
  return holders;
}

absl::Status FileSeal::CheckFiles() const {
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

absl::Status FileSeal::CheckDirectories() const {
  std::vector<ToolchainFile> now = InspectDirectories(what_.directories);
  {
    const std::lock_guard lock(mutex_);
    if (now == directories_) return absl::OkStatus();
  }
  // Something came or went that need not matter: bytecode, say.
  KILN_ASSIGN_OR_RETURN(const std::vector<ToolchainFile> files, what_.list());
  const auto [ours, theirs] =
      std::mismatch(files_.begin(), files_.end(), files.begin(), files.end());
  if (ours != files_.end() || theirs != files.end()) {
    return FailedPrecondition("{}{} is new or gone", what_.prefix,
                              theirs != files.end() ? theirs->path : ours->path);
  }
  const std::lock_guard lock(mutex_);
  directories_ = std::move(now);
  return absl::OkStatus();
}

std::vector<std::string> DirectoriesBeneath(const std::string& root,
                                            const std::function<bool(std::string_view)>& decides) {
  std::vector<std::string> found{root};
  std::error_code error;
  fs::recursive_directory_iterator walk(root, fs::directory_options::follow_directory_symlink,
                                        error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    if (walk.depth() > static_cast<int>(limits::kToolchainDepthMax)) break;
    std::error_code ignored;
    if (!walk->is_directory(ignored)) continue;
    const std::string path = walk->path().string();
    if (decides(path.substr(root.size() + 1) + "/x")) {
      found.push_back(path);
    } else {
      walk.disable_recursion_pending();
    }
  }
  return found;
}

}  // namespace kiln
