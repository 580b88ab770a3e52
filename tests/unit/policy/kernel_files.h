// The files in which a kernel tells about itself, as a test wants them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "daemon/process/control_groups.h"
#include "tests/testing/temp_directory.h"

namespace kiln {

class KernelFiles {
 public:
  // `name` from the root on: "proc/meminfo".
  void Write(const std::string& name, const std::string& content) {
    const std::filesystem::path path = std::filesystem::path(root()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  const std::string& root() const { return directory_.path(); }
  ControlGroups Groups() const { return ControlGroups::Find(OsFilesystem(), root()); }

  // What this process's /proc/self/cgroup reads in the layouts that there are.
  static constexpr char kVersion2[] = "0::/system.slice/kilnd.service\n";
  static constexpr char kVersion2Namespace[] = "0::/\n";
  static constexpr char kVersion1[] =
      "12:cpu,cpuacct:/system.slice/kilnd.service\n11:memory:/system.slice/kilnd.service\n"
      "3:cpuset:/\n1:name=systemd:/system.slice/kilnd.service\n";
  static constexpr char kHybrid[] =
      "12:cpu,cpuacct:/system.slice\n11:memory:/system.slice/kilnd.service\n"
      "1:name=systemd:/system.slice\n0::/system.slice/kilnd.service\n";

 private:
  TempDirectory directory_;
};

}  // namespace kiln
