#include "daemon/sandbox/enter_jail.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "daemon/sandbox/jail.h"
#include "storage/base/unique_fd.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::IsEmpty;

// Runs it in a process of its own, since there is no way out again, and gives its exit status.
int InChild(const std::function<bool()>& question) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(question() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool CanOpen(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

bool CanCloseRange(unsigned flags) {
  constexpr unsigned kNoDescriptor = 1 << 20;
  return ::syscall(SYS_close_range, kNoDescriptor, kNoDescriptor, flags) == 0;
}

class EnterJailTest : public testing::Test {
 protected:
  EnterJailTest() {
    const auto described =
        Jail(Jail::Mode::kOn, JailSupport::OfThisKernel()).Describe({}, directory_.path());
    jail_ = **described;
    has_all_ = jail_.handled_files != 0 && !jail_.filter.empty();
  }

  TempDirectory directory_;
  JailDescription jail_;
  bool has_all_ = false;
};

TEST_F(EnterJailTest, InsideOnlyTheDirectoryIsThere) {
  if (!has_all_) GTEST_SKIP() << "this kernel has no Landlock or no seccomp";
  EXPECT_TRUE(CanOpen("/etc/passwd", O_RDONLY));
  const std::string inside = directory_.File("inside");
  const std::string outside = directory_.path() + "-outside";
  EXPECT_EQ(InChild([&] { return EnterJail(jail_).empty(); }), 0);
  EXPECT_EQ(InChild([&] {
              return EnterJail(jail_).empty() && CanOpen(inside, O_CREAT | O_RDWR) &&
                     !CanOpen(outside, O_CREAT | O_RDWR) && !CanOpen("/etc/passwd", O_RDONLY);
            }),
            0);
}

TEST_F(EnterJailTest, APathThatCannotBeOpenedCostsThatPathAlone) {
  if (!has_all_) GTEST_SKIP() << "this kernel has no Landlock or no seccomp";
  const std::string loop = directory_.File("loop");
  ASSERT_EQ(::symlink(loop.c_str(), loop.c_str()), 0);
  jail_.paths.insert(jail_.paths.begin(), {loop, 1});
  const std::string inside = directory_.File("inside");
  EXPECT_EQ(InChild([&] {
              return EnterJail(jail_).size() == 1 && CanOpen(inside, O_CREAT | O_RDWR) &&
                     !CanOpen("/etc/passwd", O_RDONLY);
            }),
            0);
}

TEST_F(EnterJailTest, InsideThereAreNoSocketsAndNoTracing) {
  if (jail_.filter.empty()) GTEST_SKIP() << "this kernel has no seccomp";
  EXPECT_EQ(InChild([&] {
              return EnterJail(jail_).empty() && ::socket(AF_UNIX, SOCK_STREAM, 0) < 0 &&
                     errno == EPERM && ::setsid() < 0 && ::chmod(".", 0700) < 0;
            }),
            0);
}

TEST_F(EnterJailTest, StatCanBeRefusedInsideAndOutside) {
  if (jail_.filter.empty()) GTEST_SKIP() << "this kernel has no seccomp";
  const auto refused = [] {
    struct stat status {};
    const UniqueFd open(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (::stat("/dev/null", &status) != 0 || !RefuseStat()) return false;
    for (const int result : {::stat("/dev/null", &status), ::lstat("/dev/null", &status),
                             ::fstatat(AT_FDCWD, "/dev/null", &status, AT_SYMLINK_NOFOLLOW)}) {
      if (result == 0) return false;
    }
    struct statx extended {};
    return ::statx(AT_FDCWD, "/dev/null", 0, STATX_SIZE, &extended) != 0 && errno == ENOENT &&
           ::fstat(open.get(), &status) == 0;
  };
  EXPECT_EQ(InChild(refused), 0);
  jail_.handled_files = 0;
  EXPECT_EQ(InChild([&] { return EnterJail(jail_).empty() && refused(); }), 0);
}

TEST_F(EnterJailTest, InsideThereAreThreadsAndProcesses) {
  EXPECT_EQ(InChild([&] {
              if (!EnterJail(jail_).empty() || !CanCloseRange(0)) return false;
              std::thread([] {}).join();
              return InChild([] { return true; }) == 0;
            }),
            0);
}

TEST_F(EnterJailTest, JailedProcessThatAbortsDies) {
  if (!has_all_) GTEST_SKIP() << "this kernel has no Landlock or no seccomp";
  EXPECT_LT(InChild([&] {
              if (!EnterJail(jail_).empty()) return false;
              ::signal(SIGABRT, SIG_DFL);
              std::abort();
            }),
            0);
}

TEST_F(EnterJailTest, ReportsARefusedPartAndKeepsTheRest) {
  if (!has_all_) GTEST_SKIP() << "this kernel has no Landlock or no seccomp";
  jail_.handled_files = uint64_t{1} << 63;
  EXPECT_EQ(InChild([&] {
              const std::vector<std::string> problems = EnterJail(jail_);
              return problems.size() == 1 && problems[0].starts_with("Landlock: ") &&
                     ::socket(AF_UNIX, SOCK_STREAM, 0) < 0;
            }),
            0);
}

TEST_F(EnterJailTest, APathThatIsNotThereIsNoProblem) {
  jail_.paths.push_back({"/no/such/library", jail_.paths[0].access});
  EXPECT_EQ(InChild([&] { return EnterJail(jail_).empty(); }), 0);
}

TEST(SetLimitsTest, LimitsAreSetAndNeverRaised) {
  EXPECT_EQ(InChild([] {
              WorkerLimits limits;
              limits.file_bytes = 1000;
              limits.address_space_bytes = uint64_t{1} << 40;
              limits.cpu_seconds = 100;
              limits.descriptors = 64;
              if (!SetLimits(limits).empty()) return false;
              limits.descriptors = 128;
              if (!SetLimits(limits).empty()) return false;
              rlimit files{};
              rlimit descriptors{};
              rlimit cpu{};
              rlimit core{};
              ::getrlimit(RLIMIT_FSIZE, &files);
              ::getrlimit(RLIMIT_NOFILE, &descriptors);
              ::getrlimit(RLIMIT_CPU, &cpu);
              ::getrlimit(RLIMIT_CORE, &core);
              return files.rlim_max == 1000 && descriptors.rlim_max == 64 && core.rlim_max == 0 &&
                     cpu.rlim_max == 100;
            }),
            0);
}

TEST(SetLimitsTest, AProcessThatBurnsItsTimeIsEnded) {
  EXPECT_EQ(InChild([] {
              WorkerLimits limits;
              limits.cpu_seconds = 1;
              if (!SetLimits(limits).empty()) return false;
              const pid_t self = ::getpid();
              while (self == ::getpid()) {
              }
              return true;
            }),
            -SIGKILL);
}

}  // namespace
}  // namespace kiln
