#include "daemon/sandbox/file_view.h"

#include <algorithm>
#include <array>

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // of one path, as in the kernel

// The loader's cache names libraries by these paths, which can be links.
constexpr std::array kSystemLibraries = {"/lib", "/lib32", "/lib64", "/usr/lib64"};

}  // namespace

FileView::FileView() {
  for (const char* directory : kSystemLibraries) Reach(directory, kLinksMax);
}

void FileView::Show(const std::string& path) {
  const fs::path reached = Reach(path, kLinksMax);
  std::error_code error;
  if (!reached.has_relative_path() || IsShown(reached)) return;
  Add(fs::is_directory(reached, error) ? Kind::kShownDirectory : Kind::kShownFile, reached);
}

void FileView::MakeDirectory(const std::string& path) {
  const fs::path reached = Reach(path, kLinksMax);
  if (reached.has_relative_path()) Add(Kind::kDirectory, reached);
}

fs::path FileView::Reach(const fs::path& path, int links_left) {
  fs::path reached = "/";
  for (auto part = path.begin(); part != path.end(); ++part) {
    if (part->empty() || *part == "/" || *part == ".") continue;
    if (*part == "..") {
      if (reached.has_relative_path()) Add(Kind::kDirectory, reached);
      reached = reached.parent_path();
      continue;
    }
    const fs::path next = reached / *part;
    if (passed_.contains(next)) {
      reached = next;
      continue;
    }
    if (reached.has_relative_path()) Add(Kind::kDirectory, reached);
    std::error_code error;
    const fs::file_status status = fs::symlink_status(next, error);
    if (!fs::exists(status)) return {};
    if (!fs::is_symlink(status)) {
      passed_.insert(next);
      reached = next;
      continue;
    }
    const fs::path target = fs::read_symlink(next, error);
    if (error || links_left == 0) return {};
    Add(Kind::kLink, next, target);
    fs::path led = reached / target;
    while (++part != path.end()) led /= *part;
    return Reach(led, links_left - 1);
  }
  return reached;
}

bool FileView::IsShown(const fs::path& path) const {
  return std::any_of(shown_.begin(), shown_.end(), [&path](const fs::path& shown) {
    return std::mismatch(shown.begin(), shown.end(), path.begin(), path.end()).first == shown.end();
  });
}

void FileView::Add(Kind kind, const fs::path& path, const std::string& target) {
  const bool is_made = kind == Kind::kDirectory || kind == Kind::kLink;
  if (IsShown(path) || !(is_made ? made_ : shown_).insert(path).second) return;
  entries_.push_back({kind, path, target});
}

}  // namespace kiln
