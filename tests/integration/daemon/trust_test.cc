// A daemon does not keep code where others could exchange it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

TEST(Trust, ARootThatOthersMayWriteToIsRefused) {
  TemporaryDaemon daemon;
  ASSERT_EQ(chmod(daemon.root().c_str(), 0777), 0);
  EXPECT_EQ(daemon.RunToExit(), 1);
  EXPECT_THAT(daemon.Log(), HasSubstr("others may write to " + daemon.root() + "; chmod go-w"));
}

TEST(Trust, ARunDirectoryThatOthersMayWriteToIsRefused) {
  TemporaryDaemon daemon;
  const std::string run = daemon.root() + "/run";
  ASSERT_EQ(mkdir(run.c_str(), 0755), 0);
  ASSERT_EQ(chmod(run.c_str(), 0775), 0);
  EXPECT_EQ(daemon.RunToExit(), 1);
  EXPECT_THAT(daemon.Log(), HasSubstr("others may write to " + run));
}

}  // namespace
}  // namespace kiln
