#include "daemon/worker/native/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "daemon/process/allocator.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

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

TEST_F(ProgramTest, FindsNoFileWithStatAndReadsFilesAllTheSame) {
  const std::string path = directory_.File("there");
  WriteFileOrDie(path, "content");
  const auto stat = Program::Open("/usr/bin/stat", "stat");
  const auto cat = Program::Open("/bin/cat", "cat");
  ASSERT_TRUE(stat.ok() && cat.ok());
  EXPECT_THAT(stat->Run({path}, log_)->output, HasSubstr("No such file"));
  EXPECT_EQ(cat->Run({path}, log_)->output, "content");
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
