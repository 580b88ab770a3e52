#include "daemon/sandbox/work_mount.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

constexpr uid_t kPerson = 12345;

WorkerLimits Small() {
  WorkerLimits limits;
  limits.disk_bytes = limits::kMiB;
  limits.disk_entries = 16;
  return limits;
}

// In a process of its own, as the worker of somebody who has no privileges. Its exit status.
template <typename Question>
int AsAPerson(const std::string& directory, const Question& question) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::chown(directory.c_str(), kPerson, kPerson) != 0 ||
                             ::setresgid(kPerson, kPerson, kPerson) != 0 ||
                             ::setresuid(kPerson, kPerson, kPerson) != 0)) {
      ::_exit(2);
    }
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // as after an exec: its files of /proc are its own
    ::_exit(question() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(WorkMountTest, MountsInAUserNamespaceWithoutPrivileges) {
  const TempDirectory directory;
  // The systems that forbid user namespaces.
  const int may = AsAPerson(directory.path(), [] { return ::unshare(CLONE_NEWUSER) == 0; });
  if (may != 0) GTEST_SKIP() << "ordinary users may have no user namespace here";
  const int result = AsAPerson(directory.path(), [&] {
    const uid_t before = ::geteuid();
    WriteFileOrDie(directory.File("outside"), "x");
    return CanMountWorkDirectory(directory.path(), Small()).ok() &&
           std::filesystem::exists(directory.File("outside")) &&
           MountWorkDirectory(directory.path(), Small()).ok() && ::geteuid() == before &&
           !std::filesystem::exists(directory.File("outside"));
  });
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(std::filesystem::exists(directory.File("outside")));
}

TEST(WorkMountTest, KeepsTheJobsDirectoryInsideAHiddenOne) {
  const TempDirectory run;
  const std::string job = run.File("work/slot-0");
  std::filesystem::create_directories(job);
  WriteFileOrDie(run.File("kilnd.sock"), "");
  WorkerLimits limits = Small();
  limits.hidden = {run.path()};
  if (const absl::Status can = CanMountWorkDirectory(job, limits); !can.ok()) GTEST_SKIP() << can;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_mounted = MountWorkDirectory(job, limits).ok();
    WriteFileOrDie(job + "/file", "x");
    ::_exit(is_mounted && !std::filesystem::exists(run.File("kilnd.sock")) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(run.File("kilnd.sock")));
  EXPECT_FALSE(std::filesystem::exists(job + "/file"));
}

TEST(WorkMountTest, NeedsNoHiddenDirectoryThatIsGone) {
  const TempDirectory directory;
  WorkerLimits limits = Small();
  if (const absl::Status can = CanMountWorkDirectory(directory.path(), limits); !can.ok()) {
    GTEST_SKIP() << can;
  }
  limits.hidden = {"/no/such/directory"};
  const absl::Status status = CanMountWorkDirectory(directory.path(), limits);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(WorkMountTest, SaysWhatCannotBeMounted) {
  const TempDirectory directory;
  WriteFileOrDie(directory.File("file"), "");
  WorkerLimits limits = Small();
  limits.hidden = {directory.File("file")};
  EXPECT_FALSE(CanMountWorkDirectory(directory.path(), limits).ok());
}

}  // namespace
}  // namespace kiln
