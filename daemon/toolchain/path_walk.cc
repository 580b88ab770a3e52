#include "daemon/toolchain/path_walk.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <string_view>

#include "daemon/toolchain/ownership_check.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as the kernel has it

// What of a path is still to go.
class Way {
 public:
  explicit Way(std::string from) : at_(std::move(from)) {}

  // In front of the rest.
  void Add(const fs::path& path) {
    if (path.is_absolute()) at_ = "/";
    const fs::path relative = path.relative_path();
    left_.insert(left_.begin(), relative.begin(), relative.end());
  }

  // The next entry of at(); "" at the end.
  std::string Next() {
    while (!left_.empty()) {
      const std::string name = left_.front().string();
      left_.pop_front();
      if (name == "..") at_ = at_.parent_path();
      const bool stays = name.empty() || name == "." || name == "..";
      if (!stays) return (at_ / name).string();
    }
    return "";
  }

  std::string at() const { return at_.string(); }
  void Enter(const std::string& entry) { at_ = entry; }

 private:
  fs::path at_;
  std::deque<fs::path> left_;
};

}  // namespace

absl::Status WalkPath(const std::string& from, const std::string& path, const OnPathStep& on_step) {
  Way way(from);
  way.Add(path);
  int links = 0;
  for (std::string entry = way.Next(); !entry.empty(); entry = way.Next()) {
    struct stat info {};
    if (::lstat(entry.c_str(), &info) != 0) {
      return LeadsToNothing(errno) ? on_step(way.at(), entry, nullptr) : CouldNotLook(errno, entry);
    }
    KILN_RETURN_IF_ERROR(on_step(way.at(), entry, &info));
    if (!S_ISLNK(info.st_mode)) {
      way.Enter(entry);
      continue;
    }
    char target[PATH_MAX];
    const ssize_t length = ::readlink(entry.c_str(), target, sizeof target);
    if (length < 0) return CouldNotLook(errno, entry);  // it was a link just now
    if (++links > kLinksMax) return absl::OkStatus();
    way.Add(std::string_view(target, static_cast<size_t>(length)));
  }
  return absl::OkStatus();
}

}  // namespace kiln
