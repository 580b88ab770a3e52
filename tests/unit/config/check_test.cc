#include "daemon/config/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Check(const std::string& setting) {
  ConfigSources sources;
  sources.settings = {setting};
  const auto loaded = LoadConfig(sources);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return CheckThingsNamed(*loaded);
}

TEST(CheckThingsNamedTest, DefaultsMayBeAbsent) {
  EXPECT_TRUE(CheckThingsNamed(LoadedConfig()).ok());
}

TEST(CheckThingsNamedTest, AcceptsNamesThatExist) {
  EXPECT_TRUE(Check("sockets.group=root").ok());
  EXPECT_TRUE(Check("workers.script=/proc/self/exe").ok());
  EXPECT_TRUE(Check("toolchain.directories=/proc:/dev").ok());
  EXPECT_TRUE(Check("toolchain.trusted_owners=root:65534").ok());
}

TEST(CheckThingsNamedTest, MissingNameIsReportedWithItsSetting) {
  for (const auto& [setting, value] : {std::pair{"sockets.group", "no-such-group"},
                                       {"sockets.admin_group", "no-such-group"},
                                       {"workers.script", "/no/such/script.py"},
                                       {"toolchain.trusted_owners", "no-such-user"},
                                       {"toolchain.directories", "/no/such/directory"},
                                       {"toolchain.directories", "/proc/self/exe"}}) {
    const absl::Status status = Check(fmt::format("{}={}", setting, value));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(Message(status)),
                AllOf(HasSubstr(fmt::format("--set: {}: ", setting)), HasSubstr(value)));
  }
}

TEST(CheckThingsNamedTest, ReportsOneMissingDirectoryOfAList) {
  EXPECT_THAT(std::string(Message(Check("toolchain.directories=/proc:/no/such/directory"))),
              HasSubstr("there is no directory /no/such/directory"));
}

TEST(CheckPathsTest, AcceptsPathsThatCanBeMade) {
  EXPECT_TRUE(CheckPaths({"/tmp/not/there/state", "/tmp/not/there/run"}).ok());
  EXPECT_FALSE(std::filesystem::exists("/tmp/not/there"));
}

TEST(CheckPathsTest, NamesAPathThatCannotBeMade) {
  const absl::Status state = CheckPaths({"/proc/self/exe/state", "/tmp"});
  EXPECT_THAT(std::string(Message(state)), HasSubstr("/proc/self/exe is not a directory"));
  const absl::Status run = CheckPaths({"/tmp", "/dev/null/run"});
  EXPECT_THAT(std::string(Message(run)), HasSubstr("/dev/null is not a directory"));
}

TEST(CheckPathsTest, RefusesATooLongSocketPath) {
  const std::string fits(107 - std::string("/kilnd.sock").size() - 1, 'x');
  EXPECT_TRUE(CheckPaths({"/tmp", "/" + fits}).ok());
  const absl::Status status = CheckPaths({"/tmp", "/" + fits + "x"});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("has 108 bytes"));
}

}  // namespace
}  // namespace kiln
