// The machine's files that a worker sees.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "daemon/sandbox/jail_description.h"

namespace kiln {

// Collects the entries of JailDescription::view. A path of the machine leads to the same file in
// the view, also over symbolic links. Looks at the machine's files when it is called, and so blocks
// as a disk does. Not thread-safe.
class FileView {
 public:
  FileView();

  // A file, or a directory with all that is in it. Nothing where there is no such path.
  void Show(const std::string& path);
  // An empty directory, to mount on.
  void MakeDirectory(const std::string& path);

  std::vector<ViewEntry> Take() { return std::move(entries_); }

 private:
  using Kind = ViewEntry::Kind;

  // The path without links of what `path` leads to, or "". Adds the links and directories on the
  // way.
  std::filesystem::path Reach(const std::filesystem::path& path, int links_left);
  bool IsShown(const std::filesystem::path& path) const;
  void Add(Kind kind, const std::filesystem::path& path, const std::string& target = "");

  std::vector<ViewEntry> entries_;
  std::set<std::filesystem::path> shown_;
  std::set<std::filesystem::path> made_;    // directories and links
  std::unordered_set<std::string> passed_;  // known not to be links
};

}  // namespace kiln
