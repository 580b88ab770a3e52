#include "storage/base/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// Whatever its mode says, as far as it belongs to this user. Not reading it takes no right to it,
// so that it can be given one.
UniqueFd OpenDirectory(int parent, const char* name) {
  const UniqueFd found(::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!found) return {};
  // Another user's, of which the mode may be right as it is.
  (void)::chmod(fmt::format("/proc/self/fd/{}", found.get()).c_str(), 0700);
  return UniqueFd(::openat(found.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// What happened to the entries of a directory.
struct Pass {
  size_t gone = 0;
  size_t left = 0;
  int error = 0;  // of the first that is left

  void Count(bool is_gone) {
    if (is_gone) {
      ++gone;
    } else if (left++ == 0) {
      error = errno;
    }
  }
};

// Calls `remove` with the name of each; it says whether it is gone, or why not in errno.
Pass ForEachEntry(UniqueFd directory, const std::function<bool(const char*)>& remove) {
  Pass pass;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(directory.get()), ::closedir);
  if (stream == nullptr) {
    pass.Count(false);
    return pass;
  }
  (void)directory.Release();
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") pass.Count(remove(entry->d_name));
  }
  return pass;
}

bool IsGone(int result) { return result == 0 || errno == ENOENT; }

bool IsFilled(int error) { return error == ENOTEMPTY || error == EEXIST; }

// A file, a link or an empty directory. Otherwise errno says why not.
bool RemoveUnlessFilled(int parent, const char* name) {
  if (IsGone(::unlinkat(parent, name, 0))) return true;
  return errno == EISDIR && IsGone(::unlinkat(parent, name, AT_REMOVEDIR));
}

class TreeRemoval {
 public:
  explicit TreeRemoval(int top) : top_(top) {}

  // The directory itself stays.
  absl::Status Run() {
    while (true) {
      const Pass pass = ForEachEntry(UniqueFd(::openat(top_, ".", kRead)),
                                     [this](const char* name) { return Remove(name); });
      if (pass.left == 0 && pass.gone == 0) return absl::OkStatus();
      if (pass.gone == 0 && moved_ == moved_before_) return ErrnoStatus(pass.error, "unlink");
      moved_before_ = moved_;
    }
  }

 private:
  static constexpr int kRead = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

  bool Remove(const char* name) {
    if (RemoveUnlessFilled(top_, name)) return true;
    if (!IsFilled(errno)) return false;
    UniqueFd directory = OpenDirectory(top_, name);
    if (!directory) return IsGone(-1);
    const int parent = directory.get();
    const Pass pass = ForEachEntry(std::move(directory),
                                   [&](const char* child) { return RemoveOrMove(parent, child); });
    if (pass.left > 0) errno = pass.error;
    return pass.left == 0 && IsGone(::unlinkat(top_, name, AT_REMOVEDIR));
  }

  bool RemoveOrMove(int parent, const char* name) {
    if (RemoveUnlessFilled(parent, name)) return true;
    if (!IsFilled(errno)) return false;
    // A directory that moves is written to: to its entry for the one above.
    if (!OpenDirectory(parent, name)) return IsGone(-1);
    while (::renameat(parent, name, top_, fmt::format("moved-up-{}", moved_).c_str()) != 0) {
      const bool is_taken = IsFilled(errno) || errno == ENOTDIR;
      if (!is_taken) return IsGone(-1);
      ++moved_;
    }
    ++moved_;
    return true;
  }

  const int top_;
  uint64_t moved_ = 0;  // names used so far
  uint64_t moved_before_ = 0;
};

}  // namespace

absl::Status RemoveTree(const std::string& path) {
  if (IsGone(::unlink(path.c_str()))) return absl::OkStatus();
  if (errno != EISDIR) return ErrnoStatus(errno, "remove " + path);
  const UniqueFd top = OpenDirectory(AT_FDCWD, path.c_str());
  if (!top) return ErrnoStatus(errno, "open " + path);
  const absl::Status emptied = TreeRemoval(top.get()).Run();
  if (!emptied.ok()) return Annotate(emptied, "remove what is in " + path);
  if (IsGone(::rmdir(path.c_str()))) return absl::OkStatus();
  return ErrnoStatus(errno, "remove " + path);
}

}  // namespace kiln
