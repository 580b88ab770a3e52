#include "daemon/worker/native/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "daemon/process/allocator.h"
#include "daemon/sandbox/enter_jail.h"
#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

constexpr size_t kProgramOutputBytesMax = limits::kMiB;

absl::Status WaitForChild(pid_t pid, Program::Result& result) {
  rusage usage{};
  while (::wait4(pid, &result.wait_status, 0, &usage) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for a program");
  }
  result.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * limits::kKiB;
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> MakeOutputFile(const std::string& name) {
  UniqueFd file(
      ::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600));
  if (!file) return ErrnoStatus(errno, "open " + name);
  return file;
}

struct Image {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int output;
  bool finds_files;
};

// In a child that has its parent's memory and must not return: what posix_spawn does, and one thing
// that it cannot. The error is left in `error`. Nothing to read; what it writes goes to files.
[[noreturn]] void Become(const Image& image, volatile int& error) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 &&
      ::dup2(image.output, STDOUT_FILENO) >= 0 && ::dup2(image.output, STDERR_FILENO) >= 0 &&
      (nothing == STDIN_FILENO || ::close(nothing) == 0)) {
    if (!image.finds_files)
      RefuseStat();  // a kernel without filters goes without, as the jail says
    ::execve(image.path, image.arguments, image.environment);
  }
  error = errno;
  ::_exit(1);
}

absl::StatusOr<pid_t> Start(const Image& image) {
  volatile int error = 0;
  // The parent goes on when the child has become another program, or has ended.
  const pid_t pid = ::vfork();
  if (pid == 0) Become(image, error);
  if (pid < 0) return ErrnoStatus(errno, "vfork");
  if (error == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  return ErrnoStatus(error, "exec");
}

}  // namespace

absl::StatusOr<Program> Program::Open(const std::string& path, std::string name, Habits habits) {
  std::error_code error;
  std::string found = std::filesystem::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "find " + path);
  return Program(std::move(found), std::move(name), std::move(habits));
}

absl::StatusOr<Program::Result> Program::Run(const std::vector<std::string>& arguments,
                                             const std::string& output) const {
  KILN_ASSIGN_OR_RETURN(const UniqueFd log, MakeOutputFile(output));
  std::vector<char*> words{const_cast<char*>(name_.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  // For some inputs ptxas writes further files; TMPDIR keeps them here, not in /tmp.
  std::string temporary_files = "TMPDIR=.";
  std::string allocation = kProgramAllocation;
  std::string libraries = "LD_LIBRARY_PATH=" + habits_.libraries;
  char* const environment[] = {temporary_files.data(), allocation.data(),
                               habits_.libraries.empty() ? nullptr : libraries.data(), nullptr};
  const absl::StatusOr<pid_t> pid =
      Start({path_.c_str(), words.data(), environment, log.get(), habits_.finds_files});
  if (!pid.ok()) return Annotate(pid.status(), "start " + name_);
  Result result;
  KILN_RETURN_IF_ERROR(WaitForChild(*pid, result));
  struct stat info {};
  if (::fstat(log.get(), &info) != 0) return ErrnoStatus(errno, "look at " + output);
  const auto size = static_cast<size_t>(info.st_size);
  const size_t kept = std::min(size, kProgramOutputBytesMax);
  result.output.resize(kept);
  const ssize_t got =
      ::pread(log.get(), result.output.data(), kept, static_cast<off_t>(size - kept));
  if (got < 0) return ErrnoStatus(errno, "read " + output);
  result.output.resize(static_cast<size_t>(got));
  return result;
}

std::string VersionIn(std::string_view text) {
  const size_t at = text.find(", V");
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + 3);
  return std::string(text.substr(0, text.find_first_not_of("0123456789.")));
}

}  // namespace kiln
