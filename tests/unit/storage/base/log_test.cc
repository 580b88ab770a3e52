#include "storage/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Log, WritesFieldsBehindTheMessage) {
  testing::internal::CaptureStderr();
  LogInfo("store opened", {{"path", "/x"}, {"artifacts", 12}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("info store opened path=/x artifacts=12\n"));
}

TEST(Log, AHostileValueCannotForgeALine) {
  testing::internal::CaptureStderr();
  LogInfo("compiled", {{"name", "a\" uid=0\n2026 info forged"}});
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, HasSubstr(R"(name="a\" uid=0\x0a2026 info forged")"));
  EXPECT_THAT(line.substr(0, line.size() - 1), Not(HasSubstr("\n")));
}

TEST(Log, CharactersThatATerminalObeysAreWrittenInHex) {
  testing::internal::CaptureStderr();
  LogInfo("compiled", {{"name", "k\u202e\u009b\x1bé"}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr(R"(name="k\xe2\x80\xae\xc2\x9b\x1bé")"));
}

TEST(Log, LevelsAreNamed) {
  SetLogLevel("error");
  testing::internal::CaptureStderr();
  LogInfo("quiet");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  SetLogLevel("info");
}

}  // namespace
}  // namespace kiln
