#include "daemon/config/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using ::testing::ElementsAre;

constexpr uid_t kPerson = 1000;

Paths Resolve(const Config::Paths& configured, uid_t uid, const Environment& environment) {
  auto paths = ResolvePaths(configured, uid, environment);
  EXPECT_TRUE(paths.ok()) << paths.status();
  return paths.ok() ? *paths : Paths();
}

TEST(Paths, RootsDaemonUsesTheSystemsDirectories) {
  const Paths paths = Resolve({}, 0, {{"HOME", "/root"}});
  EXPECT_EQ(paths.state, "/var/lib/kiln");
  EXPECT_EQ(paths.run, "/run/kiln");
  EXPECT_EQ(paths.Socket(), "/run/kiln/kilnd.sock");
}

TEST(Paths, PersonWithAndWithoutXdgVariables) {
  Paths paths = Resolve({}, kPerson,
                        {{"HOME", "/home/a"}, {"XDG_STATE_HOME", "/s"}, {"XDG_RUNTIME_DIR", "/r"}});
  EXPECT_EQ(paths.state, "/s/kiln");
  EXPECT_EQ(paths.run, "/r/kiln");
  paths = Resolve({}, kPerson, {{"HOME", "/home/a"}, {"XDG_STATE_HOME", "relative"}});
  EXPECT_EQ(paths.state, "/home/a/.local/state/kiln");
  EXPECT_EQ(paths.run, "/home/a/.local/state/kiln/run");
}

TEST(Paths, RootDirectoryHoldsEverything) {
  Paths paths = Resolve({"/x", "", ""}, kPerson, {{"KILN_ROOT", "/y"}, {"STATE_DIRECTORY", "/z"}});
  EXPECT_EQ(paths.state, "/x/state");
  EXPECT_EQ(paths.run, "/x/run");
  paths = Resolve({}, 0, {{"KILN_ROOT", "/y"}});
  EXPECT_EQ(paths.Store(), "/y/state/store");
  paths = Resolve({"/x", "", "/elsewhere"}, kPerson, {});
  EXPECT_EQ(paths.state, "/x/state");
  EXPECT_EQ(paths.run, "/elsewhere");
}

TEST(Paths, SystemdsDirectoriesWinOverTheDefaults) {
  const Paths paths = Resolve({}, kPerson,
                              {{"HOME", "/h"},
                               {"STATE_DIRECTORY", "/var/lib/a:/var/lib/b"},
                               {"RUNTIME_DIRECTORY", "/run/a"}});
  EXPECT_EQ(paths.state, "/var/lib/a");
  EXPECT_EQ(paths.run, "/run/a");
}

TEST(Paths, NoHomeIsAnError) {
  const auto paths = ResolvePaths({}, kPerson, {});
  EXPECT_EQ(paths.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Paths, ConfigurationFile) {
  EXPECT_EQ(DefaultConfigFile("", 0, {}), "/etc/kiln/kilnd.toml");
  EXPECT_EQ(DefaultConfigFile("/x", 0, {}), "/x/kilnd.toml");
  EXPECT_EQ(DefaultConfigFile("", kPerson, {{"HOME", "/h"}}), "/h/.config/kiln/kilnd.toml");
  EXPECT_EQ(DefaultConfigFile("", kPerson, {}), "");
  EXPECT_EQ(DefaultConfigFile("", kPerson, {{"HOME", "/h"}, {"CONFIGURATION_DIRECTORY", "/etc/k"}}),
            "/etc/k/kilnd.toml");
}

TEST(Paths, ToolchainsAreLookedForInTheUsualPlacesUnlessConfigured) {
  EXPECT_THAT(ToolchainDirectories({}, {{"HOME", "/h"}}),
              ElementsAre("/usr/lib/kiln/toolchains", "/var/lib/kiln/toolchains",
                          "/h/.cache/kiln/toolchains", "/usr/local/cuda", "/usr"));
  EXPECT_THAT(ToolchainDirectories({{"/t"}, "", {}}, {{"HOME", "/h"}}), ElementsAre("/t"));
}

}  // namespace
}  // namespace kiln
