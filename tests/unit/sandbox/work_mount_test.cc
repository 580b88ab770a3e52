#include "daemon/sandbox/work_mount.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "daemon/sandbox/file_view.h"
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

// In a process of its own. Its exit status.
template <typename Question>
int InChild(const Question& question) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(question() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

// As the worker of somebody who has no privileges.
template <typename Question>
int AsAPerson(const std::string& directory, const Question& question) {
  return InChild([&] {
    if (::geteuid() == 0 && (::chown(directory.c_str(), kPerson, kPerson) != 0 ||
                             ::setresgid(kPerson, kPerson, kPerson) != 0 ||
                             ::setresuid(kPerson, kPerson, kPerson) != 0)) {
      ::_exit(2);
    }
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // as after an exec: its files of /proc are its own
    return question();
  });
}

// Shows `paths`, and a worker's directory.
std::vector<ViewEntry> ViewOf(const std::string& directory, const std::vector<std::string>& paths) {
  FileView view;
  view.MakeDirectory(directory);
  for (const std::string& path : paths) view.Show(path);
  return view.Take();
}

TEST(WorkMountTest, ShowsWhatIsNamedAndNothingElse) {
  const TempDirectory work;
  const TempDirectory shown;
  WriteFileOrDie(work.File("outside"), "x");
  WriteFileOrDie(shown.File("inside"), "x");
  const std::string link = work.File("link");
  std::filesystem::create_symlink(shown.path(), link);
  const auto view = ViewOf(work.path(), {link, "/dev/null"});
  // The systems that forbid user namespaces.
  const int may = AsAPerson(work.path(), [] { return ::unshare(CLONE_NEWUSER) == 0; });
  std::filesystem::permissions(shown.path(), std::filesystem::perms::all);
  const auto sees = [&] {
    const uid_t before = ::geteuid();
    namespace fs = std::filesystem;
    if (!CanMountWorkDirectory(work.path(), Small(), view).ok() || !fs::exists("/etc/passwd") ||
        !MountWorkDirectory(work.path(), Small(), view).ok() || ::geteuid() != before) {
      return false;
    }
    WriteFileOrDie(work.File("file"), "x");
    return fs::exists(shown.File("inside")) && fs::is_character_file("/dev/null") &&
           !fs::exists("/etc") && !fs::exists("/proc") && !fs::exists(work.File("outside")) &&
           !fs::exists(work.File("..") + "/" + fs::path(link).filename().string());
  };
  if (may == 0) {
    EXPECT_EQ(AsAPerson(work.path(), sees), 0);
  }
  if (::geteuid() == 0 && CanMountWorkDirectory(work.path(), Small(), view).ok()) {
    EXPECT_EQ(InChild(sees), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(work.File("outside")));
  EXPECT_FALSE(std::filesystem::exists(work.File("file")));
}

TEST(WorkMountTest, LeavesTheRootWithoutAView) {
  const TempDirectory directory;
  if (const absl::Status can = CanMountWorkDirectory(directory.path(), Small(), {}); !can.ok()) {
    GTEST_SKIP() << can;
  }
  WriteFileOrDie(directory.File("outside"), "x");
  EXPECT_EQ(InChild([&] {
              return MountWorkDirectory(directory.path(), Small(), {}).ok() &&
                     std::filesystem::exists("/etc/passwd") &&
                     !std::filesystem::exists(directory.File("outside"));
            }),
            0);
}

TEST(WorkMountTest, NeedsNoFileThatIsGone) {
  const TempDirectory directory;
  WriteFileOrDie(directory.File("file"), "");
  const auto view = ViewOf(directory.path(), {"/no/such/directory", "/dev/null/x"});
  const auto stale = ViewOf(directory.path(), {directory.File("file")});
  std::filesystem::remove(directory.File("file"));
  if (const absl::Status can = CanMountWorkDirectory(directory.path(), Small(), {}); !can.ok()) {
    GTEST_SKIP() << can;
  }
  for (const auto& one : {view, stale}) {
    const absl::Status status = CanMountWorkDirectory(directory.path(), Small(), one);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(WorkMountTest, SaysWhatCannotBeMounted) {
  const TempDirectory directory;
  WriteFileOrDie(directory.File("file"), "");
  EXPECT_FALSE(CanMountWorkDirectory(directory.File("file"), Small(), {}).ok());
}

}  // namespace
}  // namespace kiln
