// The control groups that bound this process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/filesystem.h"

namespace kiln {

// Directories under the usual mount points: this process's group first, then each group around it,
// up to the outermost visible one. A limit of any of them binds. The kernel's layout decides which
// files lie in them; the directories of a version that is not in use are empty or absent.
//
//  * version 2 alone: /sys/fs/cgroup/...
//  * version 1: /sys/fs/cgroup/memory/..., /sys/fs/cgroup/cpu/..., /sys/fs/cgroup/pids/...
//  * both at once ("hybrid"): version 1's, and version 2 under /sys/fs/cgroup/unified, without
//    controllers.
//
// Each list ends with the mount point. In a container that sees the machine's names but only its
// own directories, the mount point is this process's group.
struct ControlGroups {
  std::vector<std::string> unified;  // version 2
  std::vector<std::string> memory;   // version 1's memory controller
  std::vector<std::string> cpu;      // version 1's cpu controller
  std::vector<std::string> pids;     // version 1's pids controller

  // The groups of this process, from /proc/self/cgroup. `root` is "" except in tests. Blocks for
  // one read.
  static ControlGroups Find(Filesystem& files, const std::string& root);
};

// The first number in a file; nothing for "max", or where the file is not there or says no number.
std::optional<uint64_t> ReadNumber(Filesystem& files, const std::string& path);
// The number behind `name` in a file of lines "name 123".
std::optional<uint64_t> ReadField(Filesystem& files, const std::string& path,
                                  std::string_view name);

}  // namespace kiln
