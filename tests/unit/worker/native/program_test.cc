#include "daemon/worker/native/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "daemon/process/allocator.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ProgramTest : public testing::Test {
 protected:
  const TempDirectory directory_;
  const std::string log_ = directory_.File("log");
};

TEST_F(ProgramTest, RunsWithItsArgumentsAndNothingOfTheEnvironment) {
  ::setenv("KILN_SECRET", "x", 1);
  const auto program = Program::Open("/bin/sh", "sh");
  ASSERT_TRUE(program.ok());
  const auto result = program->Run(
      {"-c", "echo \"$1\"; echo ${KILN_SECRET-none} >&2; exit 3", "sh", "; rm -rf $HOME"}, log_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "; rm -rf $HOME\nnone\n");
  EXPECT_EQ(WEXITSTATUS(result->wait_status), 3);
}

TEST_F(ProgramTest, AllocatesInLargePagesAndKeepsItsFilesHere) {
  const auto result = Program::Open("/usr/bin/env", "env")->Run({}, log_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, std::string("TMPDIR=.\n") + kProgramAllocation + "\n");
}

TEST_F(ProgramTest, RunsTheOpenedFileAfterItWasReplaced) {
  const std::string path = directory_.File("tool");
  fs::copy_file("/bin/true", path);
  const auto program = Program::Open(path, "tool");
  ASSERT_TRUE(program.ok());
  fs::copy_file("/bin/false", directory_.File("other"));
  fs::rename(directory_.File("other"), path);
  const auto result = program->Run({}, log_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->wait_status, 0);
}

TEST_F(ProgramTest, TheTimesOfAFileBecomeZero) {
  const std::string path = directory_.File("new");
  WriteFileOrDie(path, "content");
  ASSERT_TRUE(SetTimesToZero(path).ok());
  EXPECT_EQ(ReadFileOrDie(path), "content");
  EXPECT_EQ(fs::last_write_time(path),
            fs::file_time_type::clock::from_sys(std::chrono::sys_seconds{}));
  fs::create_symlink(path, directory_.File("link"));
  EXPECT_FALSE(SetTimesToZero(directory_.File("link")).ok());
}

TEST_F(ProgramTest, ASignalIsSeen) {
  const auto program = Program::Open("/bin/sh", "sh");
  const auto result = program->Run({"-c", "kill -SEGV $$"}, log_);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(WIFSIGNALED(result->wait_status));
}

TEST_F(ProgramTest, ProgramThatDoesNotStartIsAnError) {
  EXPECT_FALSE(Program::Open(directory_.File("missing"), "x").ok());
  WriteFileOrDie(directory_.File("text"), "no program");
  const auto program = Program::Open(directory_.File("text"), "text");
  ASSERT_TRUE(program.ok());
  EXPECT_FALSE(program->Run({}, log_).ok());
}

}  // namespace
}  // namespace kiln
