#include "daemon/process/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "daemon/process/output_capture.h"

namespace kiln {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

struct Ran {
  std::string output;
  int wait_status = -1;
};

Ran RunScript(const std::string& script, SpawnCommand command = {}) {
  const auto output = OutputCapture::Create();
  command.arguments = {"/bin/sh", "-c", script};
  const auto pid = Spawn(command, output->fd(), -1);
  EXPECT_TRUE(pid.ok()) << pid.status();
  Ran ran;
  EXPECT_TRUE(ReapChild(*pid, kPatience, &ran.wait_status));
  ran.output = output->Tail(10'000);
  return ran;
}

TEST(SpawnTest, OutputAndErrorAreCaptured) {
  EXPECT_EQ(RunScript("echo out; echo err >&2").output, "out\nerr\n");
}

TEST(SpawnTest, InheritsNoVariablesOrDescriptors) {
  ASSERT_EQ(setenv("KILN_SPAWN_TEST", "leaked", 1), 0);
  const int leaked = dup(STDERR_FILENO);  // not close-on-exec
  SpawnCommand command;
  command.environment = {"ONLY=this"};
  const Ran ran = RunScript("echo $ONLY-$KILN_SPAWN_TEST; ls /proc/self/fd | wc -l", command);
  close(leaked);
  EXPECT_EQ(ran.output, "this-\n4\n");  // 0, 1, 2, and the one that lists them
}

TEST(SpawnTest, LeadsItsOwnGroup) {
  const auto output = OutputCapture::Create();
  SpawnCommand command;
  command.arguments = {"/bin/sleep", "1000"};
  const auto pid = Spawn(command, output->fd(), -1);
  ASSERT_TRUE(pid.ok());
  EXPECT_EQ(getpgid(*pid), *pid);
  EXPECT_FALSE(ReapChild(*pid, std::chrono::milliseconds(1), nullptr));
  EXPECT_EQ(kill(-*pid, SIGKILL), 0);
  int wait_status = 0;
  EXPECT_TRUE(ReapChild(*pid, kPatience, &wait_status));
  EXPECT_EQ(DescribeWaitStatus(wait_status), "SIGKILL");
}

TEST(SpawnTest, StartsInItsDirectory) {
  SpawnCommand command;
  command.directory = "/usr";
  EXPECT_EQ(RunScript("pwd", command).output, "/usr\n");
}

TEST(SpawnTest, ExitStatusIsTold) {
  EXPECT_EQ(DescribeWaitStatus(RunScript("exit 3").wait_status), "exit status 3");
}

TEST(SpawnTest, MissingProgramIsNotFound) {
  const auto output = OutputCapture::Create();
  SpawnCommand command;
  command.arguments = {"/nonexistent/program"};
  const auto pid = Spawn(command, output->fd(), -1);
  EXPECT_TRUE(absl::IsNotFound(pid.status()));
  EXPECT_THAT(std::string(Message(pid.status())), testing::HasSubstr("/nonexistent/program"));
}

}  // namespace
}  // namespace kiln
