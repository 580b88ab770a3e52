#include "daemon/toolchain/describe_program.h"

#include <absl/cleanup/cleanup.h>
#include <poll.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "daemon/process/output_capture.h"
#include "daemon/process/spawn.h"
#include "daemon/toolchain/decision_log.h"
#include "storage/base/limits.h"
#include "storage/base/remove_tree.h"

namespace kiln {
namespace {

constexpr auto kKillPatience = std::chrono::seconds(5);
constexpr size_t kErrorBytesMax = 400;

absl::StatusOr<std::string> MakeScratchDirectory(std::string parent) {
  std::error_code error;
  if (parent.empty()) parent = std::filesystem::temp_directory_path(error).string();
  std::string path = parent + "/describe-XXXXXX";
  if (!error && ::mkdtemp(path.data()) != nullptr) return path;
  return ErrnoStatus(error ? error.value() : errno, "make the directory " + path);
}

SpawnCommand MakeCommand(std::vector<std::string> arguments, const std::string& directory) {
  SpawnCommand command;
  command.arguments = std::move(arguments);
  command.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + directory,
                         "TMPDIR=" + directory, "TRITON_CACHE_DIR=" + directory};
  command.directory = directory;
  return command;
}

// A program that is none fails every time; what else fails may work in a moment.
absl::StatusOr<pid_t> Start(const SpawnCommand& command, int output, int inherited) {
  const auto pid = Spawn(command, output, inherited);
  const bool is_passing =
      pid.ok() || absl::IsResourceExhausted(pid.status()) || absl::IsUnavailable(pid.status());
  if (is_passing) return pid;
  return FailedPrecondition("it does not run: {}", Message(pid.status()));
}

// False when `time` is over first. An error says nothing of the process.
absl::StatusOr<bool> WaitForExit(pid_t pid, std::chrono::milliseconds time) {
  const UniqueFd process = OpenProcess(pid);
  if (!process) return ErrnoStatus(errno, "pidfd_open");
  const auto until = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wait{process.get(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return ErrnoStatus(errno, "poll");
    return ready > 0;
  }
}

// The last line says what went wrong, be it Python's or a shell's; one line, without controls.
std::string LastLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  text = ShortAscii(text.substr(text.rfind('\n') + 1), kErrorBytesMax);
  return text.empty() ? "it wrote nothing to say why" : text;
}

absl::Status CheckExit(int wait_status, const OutputCapture& errors) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return absl::OkStatus();
  return FailedPrecondition("asked what it can do, it ended with {}: {}",
                            DescribeWaitStatus(wait_status), LastLine(errors.Tail(kErrorBytesMax)));
}

}  // namespace

absl::StatusOr<std::string> RunDescribe(std::vector<std::string> arguments,
                                        const std::string& work_directory,
                                        std::chrono::milliseconds time) {
  KILN_ASSIGN_OR_RETURN(const std::string scratch, MakeScratchDirectory(work_directory));
  const absl::Cleanup remove = [&scratch] { (void)RemoveTree(scratch); };
  KILN_ASSIGN_OR_RETURN(const OutputCapture answer, OutputCapture::Create());
  KILN_ASSIGN_OR_RETURN(const OutputCapture errors, OutputCapture::Create());
  KILN_ASSIGN_OR_RETURN(
      const pid_t pid, Start(MakeCommand(std::move(arguments), scratch), errors.fd(), answer.fd()));
  const auto in_time = WaitForExit(pid, time);
  // Before the leader is reaped, while nobody else can have the group's number.
  ::kill(-pid, SIGKILL);
  int wait_status = 0;
  if (!ReapChild(pid, kKillPatience, &wait_status)) {
    return Internal("process {} does not end, even killed", pid);
  }
  // Orphans of it, where this process inherits them.
  ReapChild(-pid, kKillPatience, nullptr);
  KILN_RETURN_IF_ERROR(in_time.status());
  if (!*in_time) {
    return DeadlineExceeded("asked what it can do, it gave no answer within {} ms", time.count());
  }
  KILN_RETURN_IF_ERROR(CheckExit(wait_status, errors));
  return answer.Tail(limits::kToolchainDescriptionBytesMax + 1);
}

}  // namespace kiln
