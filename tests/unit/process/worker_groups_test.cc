#include "daemon/process/worker_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "tests/unit/policy/kernel_files.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

// Version 2, in a directory tree that stands for the kernel's: it holds no process.
class WorkerGroupsVersion2Test : public testing::Test {
 protected:
  WorkerGroupsVersion2Test() {
    files_.Write("proc/self/cgroup", KernelFiles::kVersion2);
    Write("cgroup.controllers", "cpu memory pids\n");
    Write("cgroup.procs", fmt::format("{}\n", getpid()));
  }
  void Write(const std::string& name, const std::string& content) {
    files_.Write(kOwn + name, content);
  }
  std::string Read(const std::string& name) {
    return OsFilesystem().Read(files_.root() + "/" + kOwn + name, 1000).value_or("absent");
  }
  auto Open() { return WorkerGroups::Open(files_.Groups(), {.threads = 8, .memory_bytes = 4096}); }

  static constexpr char kOwn[] = "sys/fs/cgroup/system.slice/kilnd.service/";
  KernelFiles files_;
};

TEST_F(WorkerGroupsVersion2Test, AWorkerGetsABoundedGroup) {
  const auto groups = Open();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_TRUE((*groups)->bounds_memory());
  EXPECT_EQ(Read("daemon/cgroup.procs"), fmt::format("{}", getpid()));
  EXPECT_EQ(Read("cgroup.subtree_control"), "+pids +memory");
  EXPECT_TRUE((*groups)->Add(123456).ok());
  const std::string group = fmt::format("worker-{}-1/", getpid());
  EXPECT_EQ(Read(group + "cgroup.procs"), "123456");
  EXPECT_EQ(Read(group + "pids.max"), "8");
  EXPECT_EQ(Read(group + "memory.max"), "4096");
  EXPECT_EQ(Read(group + "memory.oom.group"), "1");
  Write(group + "cgroup.kill", "");
  (*groups)->Kill(123456);
  EXPECT_EQ(Read(group + "cgroup.kill"), "1");
}

TEST_F(WorkerGroupsVersion2Test, AGroupIsReusedAfterItsWorker) {
  const auto groups = Open();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_TRUE((*groups)->Add(1000001).ok());
  EXPECT_TRUE((*groups)->Add(1000002).ok());
  const std::string first = fmt::format("worker-{}-1/", getpid());
  Write(first + "cgroup.kill", "");
  (*groups)->Kill(1000001);
  EXPECT_TRUE((*groups)->Add(1000003).ok());
  EXPECT_EQ(Read(first + "cgroup.procs"), "1000003");
  Write(first + "cgroup.kill", "");
  Write(fmt::format("worker-{}-2/cgroup.kill", getpid()), "");
}

TEST_F(WorkerGroupsVersion2Test, AGroupWithOtherProcessesIsLeftAlone) {
  Write("cgroup.procs", fmt::format("{}\n1\n", getpid()));
  const auto groups = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(groups.status()));
  EXPECT_THAT(std::string(Message(groups.status())), HasSubstr("is not kilnd's alone"));
  EXPECT_EQ(Read("daemon/cgroup.procs"), "absent");
}

TEST_F(WorkerGroupsVersion2Test, BoundsThreadsWithoutAMemoryController) {
  Write("cgroup.controllers", "pids\n");
  const auto groups = Open();
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_FALSE((*groups)->bounds_memory());
  EXPECT_EQ(Read("cgroup.subtree_control"), "+pids");
}

TEST_F(WorkerGroupsVersion2Test, MissingControllersAreAFailedPrecondition) {
  Write("cgroup.controllers", "\n");
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
}

// With the control groups of this machine.
class RealWorkerGroupsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto groups = WorkerGroups::Open(ControlGroups::Find(OsFilesystem(), ""), {.threads = 4});
    if (!groups.ok()) GTEST_SKIP() << groups.status();
    groups_ = *std::move(groups);
    RecordProperty("memory_bounded", groups_->bounds_memory() ? "yes" : "no");
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    std::array<int, 2> go{};
    ASSERT_EQ(::pipe(go.data()), 0);
    ASSERT_EQ(::pipe(told_.data()), 0);
    worker_ = ::_Fork();
    if (worker_ == 0) Breed(go[0]);
    ASSERT_TRUE(groups_->Add(worker_).ok());
    EXPECT_EQ(::write(go[1], "x", 1), 1);
    EXPECT_EQ(::read(told_[0], &children_, sizeof children_), ssize_t{sizeof children_});
  }

  // Children in sessions of their own, until the kernel refuses one. _Fork, because ThreadSanitizer
  // starts a thread of its own in each child of fork, and the kernel counts threads.
  [[noreturn]] void Breed(int go) const {
    char byte = 0;
    if (::read(go, &byte, 1) != 1) _exit(1);
    int children = 0;
    for (; children < 100; ++children) {
      const pid_t child = ::_Fork();
      if (child < 0) break;
      if (child > 0) continue;
      ::setsid();
      while (true) ::pause();
    }
    if (::write(told_[1], &children, sizeof children) < 0) _exit(1);
    while (true) ::pause();
  }

  std::unique_ptr<WorkerGroups> groups_;
  std::array<int, 2> told_{};
  pid_t worker_ = -1;
  int children_ = 0;
};

TEST_F(RealWorkerGroupsTest, TheKernelRefusesOneThreadTooMany) {
  EXPECT_EQ(children_, 3);
  groups_->Kill(worker_);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_F(RealWorkerGroupsTest, KillEndsWhatHasLeftTheSession) {
  groups_->Kill(worker_);
  int ended = 0;
  for (int status = 0; ::waitpid(-1, &status, 0) > 0;) {
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ++ended;
  }
  EXPECT_EQ(ended, 4);
}

}  // namespace
}  // namespace kiln
