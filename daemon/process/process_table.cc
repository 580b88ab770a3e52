#include "daemon/process/process_table.h"

#include <sys/sysinfo.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace kiln {

absl::StatusOr<std::vector<pid_t>> ChildProcesses() {
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream file(it->path() / "children");
    // The thread may have ended. A kernel without CONFIG_PROC_CHILDREN has no such file.
    if (!file && errno != ENOENT) return ErrnoStatus(errno, "open children in /proc/self/task");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  if (error) return ErrnoStatus(error.value(), "read /proc/self/task");
  return children;
}

uint64_t RunningThreads() {
  // "0.20 0.18 0.12 1/80 11206": of 80, one runs just now.
  std::ifstream file("/proc/loadavg");
  double load = 0;
  uint64_t running = 0, threads = 0;
  char slash = 0;
  file >> load >> load >> load >> running >> slash >> threads;
  if (threads > 0) return threads;
  // No descriptor, or a /proc that has processes only. This takes neither, but has 16 bits.
  struct sysinfo info {};
  return ::sysinfo(&info) == 0 && info.procs > 0 ? info.procs : UINT16_MAX;
}

}  // namespace kiln
