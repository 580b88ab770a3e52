#include "daemon/process/process_table.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace kiln {
namespace {

// Adds what it finds also where it cannot look everywhere.
absl::Status AddChildrenOf(pid_t process, std::vector<pid_t>& children) {
  absl::Status status;
  std::error_code error;
  const std::string threads = fmt::format("/proc/{}/task", process);
  for (std::filesystem::directory_iterator it(threads, error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream file(it->path() / "children");
    // A thread may be over by now.
    if (!file && errno != ENOENT) status.Update(ErrnoStatus(errno, "open children in " + threads));
    for (pid_t child; file >> child;) children.push_back(child);
  }
  if (error) status.Update(ErrnoStatus(error.value(), "read " + threads));
  return status;
}

}  // namespace

absl::StatusOr<std::vector<pid_t>> ChildProcesses() {
  std::vector<pid_t> children;
  KILN_RETURN_IF_ERROR(AddChildrenOf(::getpid(), children));
  return children;
}

std::vector<pid_t> ProcessesOf(pid_t worker, pid_t zygote, size_t most) {
  std::vector<pid_t> processes;
  AddChildrenOf(zygote, processes).IgnoreError();
  std::erase_if(processes,
                [&](pid_t process) { return process == worker || ::getpgid(process) != worker; });
  processes.insert(processes.begin(), worker);
  for (size_t i = 0; i < processes.size() && processes.size() < most; ++i) {
    AddChildrenOf(processes[i], processes).IgnoreError();
  }
  processes.resize(std::min(processes.size(), most));
  return processes;
}

uint64_t CountThreads(const std::vector<pid_t>& processes, uint64_t most) {
  uint64_t threads = 0;
  for (const pid_t process : processes) {
    std::error_code error;
    const std::string path = fmt::format("/proc/{}/task", process);
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      if (++threads >= most) return threads;
    }
  }
  return threads;
}

uint64_t RunningThreads() {
  // "0.20 0.18 0.12 1/80 11206": of 80, one runs just now.
  std::ifstream file("/proc/loadavg");
  std::string word;
  uint64_t threads = 0;
  for (int i = 0; i < 4 && file >> word; ++i) {
  }
  const size_t slash = word.find('/');
  if (slash != std::string::npos) std::istringstream(word.substr(slash + 1)) >> threads;
  if (threads > 0) return threads;
  // No descriptor, or a /proc that has processes only. This takes neither, but has 16 bits.
  struct sysinfo info {};
  return ::sysinfo(&info) == 0 && info.procs > 0 ? info.procs : UINT16_MAX;
}

}  // namespace kiln
