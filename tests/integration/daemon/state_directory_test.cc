// A daemon says what is wrong with a directory that it cannot keep its state in, and ends.

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "storage/base/limits.h"
#include "tests/integration/daemon/small_disk.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// As docs/reference.md has it.
constexpr int kFailed = 1;
constexpr uid_t kNobody = 65534;

// Runs kilnd as another user than root, whom nothing would stop. Tests of an ordinary user's need
// no second one.
class StateDirectoryTest : public ::testing::Test {
 protected:
  StateDirectoryTest() {
    // It may enter what is ours, and owns what is its.
    fs::permissions(fs::path(daemon_.root()).parent_path(), fs::perms(0755));
    GiveToUser(daemon_.root());
    for (const auto& entry : fs::recursive_directory_iterator(daemon_.root())) {
      GiveToUser(entry.path());
    }
  }

  void SetUp() override {
    const bool can_run =
        AsUser([this] {
          return access(KILND_PATH, X_OK) == 0 && access(daemon_.root().c_str(), X_OK) == 0 ? 0 : 1;
        }) == 0;
    if (!can_run) {
      GTEST_SKIP() << "uid " << User() << " cannot reach " << KILND_PATH << " and "
                   << daemon_.root() << ": build and test where others may enter";
    }
  }

  static bool IsRoot() { return geteuid() == 0; }
  static uid_t User() { return IsRoot() ? kNobody : geteuid(); }
  static void GiveToUser(const std::string& path) {
    ASSERT_EQ(lchown(path.c_str(), User(), static_cast<gid_t>(-1)), 0) << path;
  }
  std::string State() const { return daemon_.root() + "/state"; }

  // What a process of that user makes of it.
  static int AsUser(const std::function<int()>& act) {
    const pid_t child = fork();
    if (child == 0) {
      if (IsRoot() && (setgroups(0, nullptr) != 0 || setgid(User()) != 0 || setuid(User()) != 0)) {
        _exit(126);
      }
      _exit(act());
    }
    int ended = 0;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended);
  }
  // kilnd's exit code.
  int RunToExit() {
    // Its log is opened by whoever runs it.
    const std::string log = fs::path(daemon_.root()).parent_path() / "log";
    WriteFileOrDie(log, "");
    GiveToUser(log);
    return AsUser([this] { return daemon_.RunToExit(); });
  }
  // What it said before it ended.
  std::string Refusal() {
    EXPECT_EQ(RunToExit(), kFailed) << daemon_.Log();
    return daemon_.Log();
  }

  TemporaryDaemon daemon_;
};

TEST_F(StateDirectoryTest, RefusedWhereItsParentIsReadOnly) {
  fs::remove_all(State());
  fs::permissions(daemon_.root(), fs::perms(0555));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("cannot make " + State() + ": Permission denied"),
                               HasSubstr("uid " + std::to_string(User())),
                               HasSubstr("--set paths.state=DIR")));
  EXPECT_FALSE(fs::exists(State()));
}

// Where the tests are run by an ordinary user, the one that belongs to somebody else is root's.
TEST_F(StateDirectoryTest, RefusedWhereAnotherUserOwnsIt) {
  TemporaryDaemon foreign(IsRoot() ? std::vector<std::string>{}
                                   : std::vector<std::string>{"--set", "paths.state=/usr"});
  if (IsRoot()) {
    ASSERT_EQ(lchown((foreign.root() + "/state").c_str(), kNobody, static_cast<gid_t>(-1)), 0);
  }
  EXPECT_EQ(foreign.RunToExit(), kFailed);
  const std::string state = IsRoot() ? foreign.root() + "/state" : "/usr";
  EXPECT_THAT(foreign.Log(), AllOf(HasSubstr(state), HasSubstr("chown")));
}

TEST_F(StateDirectoryTest, RefusedToAnOrdinaryUserWhereRootOwnsIt) {
  if (!IsRoot()) GTEST_SKIP() << "only root can make a directory of root's";
  ASSERT_EQ(lchown(State().c_str(), 0, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(State()), HasSubstr("uid 65534 must own"),
                               HasSubstr("--set paths.state=DIR")));
}

TEST_F(StateDirectoryTest, RefusedWhereAnotherUserOwnsTheLockFile) {
  WriteFileOrDie(State() + "/lock", "");
  fs::permissions(State() + "/lock", fs::perms::none);
  if (IsRoot()) {
    ASSERT_EQ(lchown((State() + "/lock").c_str(), 0, static_cast<gid_t>(-1)), 0);
  }
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("cannot open the lock file " + State() + "/lock"),
                               HasSubstr("--set paths.state=DIR")));
}

TEST_F(StateDirectoryTest, RefusedWhereAnotherUserOwnsTheStore) {
  if (!IsRoot()) GTEST_SKIP() << "only root can make a directory of root's";
  ASSERT_EQ(mkdir((State() + "/store").c_str(), 0755), 0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("the store " + State() + "/store belongs to uid 0"),
                               HasSubstr("chown -R")));
}

// Its owner can put that right, and does.
TEST_F(StateDirectoryTest, ReadOnlyDirectoryOfItsOwnerIsMadeWritable) {
  fs::permissions(State(), fs::perms(0555));
  WriteFileOrDie(daemon_.root() + "/run",
                 "a file, so that it ends after it has prepared its state");
  EXPECT_THAT(Refusal(), HasSubstr(daemon_.root() + "/run is not a directory"));
  EXPECT_EQ(fs::status(State()).permissions(), fs::perms(0700));
}

class ReadOnlyDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SmallDisk::WhyNot().empty()) GTEST_SKIP() << SmallDisk::WhyNot();
    daemon_.emplace();
    disk_.emplace(daemon_->root() + "/state", limits::kMiB);
  }
  void ExpectRefusal() {
    EXPECT_EQ(daemon_->RunToExit(), kFailed);
    EXPECT_THAT(daemon_->Log(),
                AllOf(HasSubstr(daemon_->root() + "/state"), HasSubstr("Read-only file system"),
                      HasSubstr("--set paths.state=DIR")));
  }

  std::optional<TemporaryDaemon> daemon_;
  std::optional<SmallDisk> disk_;
};

TEST_F(ReadOnlyDiskTest, IsRefusedToRootToo) {
  disk_->MakeReadOnly();
  ExpectRefusal();
}

}  // namespace
}  // namespace kiln
