#include "daemon/config/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(CheckThingsNamedTest, WhatIsThereIsFine) {
  EXPECT_TRUE(Check("sockets.group=root").ok());
  EXPECT_TRUE(Check("workers.script=/proc/self/exe").ok());
  EXPECT_TRUE(Check("toolchain.directories=/proc:/dev").ok());
}

TEST(CheckThingsNamedTest, WhatIsNotThereIsNamedWithItsSetting) {
  for (const auto& [setting, value] : {std::pair{"sockets.group", "no-such-group"},
                                       {"sockets.admin_group", "no-such-group"},
                                       {"workers.script", "/no/such/script.py"},
                                       {"toolchain.directories", "/no/such/directory"}}) {
    const absl::Status status = Check(fmt::format("{}={}", setting, value));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(Message(status)),
                AllOf(HasSubstr(fmt::format("--set: {}: ", setting)), HasSubstr(value)));
  }
}

TEST(CheckThingsNamedTest, OneMissingDirectoryAmongMany) {
  EXPECT_THAT(std::string(Message(Check("toolchain.directories=/proc:/no/such/directory"))),
              HasSubstr("there is no directory /no/such/directory"));
}

}  // namespace
}  // namespace kiln
