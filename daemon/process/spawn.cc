#include "daemon/process/spawn.h"

#include <absl/cleanup/cleanup.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

namespace kiln {
namespace {

constexpr int kInheritedFd = 3;

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<pid_t> Spawn(const SpawnCommand& command, int output, int inherited) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  const absl::Cleanup destroy_files = [&] { ::posix_spawn_file_actions_destroy(&files); };
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  if (inherited >= 0) ::posix_spawn_file_actions_adddup2(&files, inherited, kInheritedFd);
  ::posix_spawn_file_actions_addclosefrom_np(&files,
                                             inherited >= 0 ? kInheritedFd + 1 : kInheritedFd);
  if (!command.directory.empty()) {
    ::posix_spawn_file_actions_addchdir_np(&files, command.directory.c_str());
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy_attributes = [&] { ::posix_spawnattr_destroy(&attributes); };
  sigset_t signals;
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  const std::vector<char*> arguments = Pointers(command.arguments);
  const std::vector<char*> environment = Pointers(command.environment);
  pid_t pid = -1;
  const int error =
      ::posix_spawn(&pid, arguments[0], &files, &attributes, arguments.data(), environment.data());
  if (error != 0) return ErrnoStatus(error, fmt::format("start {}", command.arguments[0]));
  return pid;
}

UniqueFd OpenProcess(pid_t pid) {
  // Not pidfd_open(3): glibc 2.36 declares it without C linkage.
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(wait_status));
    return name == nullptr ? fmt::format("signal {}", WTERMSIG(wait_status))
                           : fmt::format("SIG{}", name);
  }
  return fmt::format("exit status {}", WEXITSTATUS(wait_status));
}

bool ReapChild(pid_t pid, std::chrono::milliseconds patience, int* wait_status) {
  const auto until = std::chrono::steady_clock::now() + patience;
  auto pause = std::chrono::microseconds(100);
  while (true) {
    const pid_t reaped = ::waitpid(pid, wait_status, WNOHANG);
    if (reaped > 0 && pid < 0) continue;
    if (reaped > 0 || (reaped < 0 && errno == ECHILD)) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(10'000));
  }
}

}  // namespace kiln
