// What a daemon makes of the place that it is started in.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "tests/integration/daemon/raw_call.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// As docs/reference.md has them.
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
constexpr int kAlreadyRunning = 3;

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST(Start, MakesWhatItNeedsAndRemovesItsSockets) {
  TemporaryDaemon daemon;
  daemon.Start();
  EXPECT_EQ(ModeOf(daemon.root() + "/state"), 0700u);
  EXPECT_EQ(ModeOf(daemon.root() + "/run"), 0755u);
  EXPECT_EQ(ModeOf(daemon.root() + "/run/hot"), 0755u);
  EXPECT_EQ(ModeOf(daemon.socket()), getuid() == 0 ? 0660u : 0600u);
  EXPECT_EQ(ModeOf(daemon.admin_socket()), 0600u);
  EXPECT_EQ(daemon.Stop(), 0) << daemon.Log();
  EXPECT_FALSE(fs::exists(daemon.socket()));
  EXPECT_FALSE(fs::exists(daemon.admin_socket()));
  EXPECT_THAT(daemon.Log(), HasSubstr("coalescing("));
}

TEST(Start, SecondDaemonOnTheDirectoryIsRefused) {
  TemporaryDaemon daemon;
  daemon.Start();
  const pid_t first = daemon.pid();
  TemporaryDaemon second({"--set", "paths.state=" + daemon.root() + "/state"});
  EXPECT_EQ(second.RunToExit(), kAlreadyRunning);
  EXPECT_THAT(second.Log(), HasSubstr(std::to_string(first)));
  TemporaryDaemon same_run({"--set", "paths.run=" + daemon.root() + "/run"});
  EXPECT_EQ(same_run.RunToExit(), kAlreadyRunning);
  EXPECT_TRUE(daemon.Connect()->ListToolchains().ok());
}

TEST(Start, PathTooLongForASocket) {
  TemporaryDaemon daemon;
  TemporaryDaemon deep({"--set", "paths.run=" + daemon.root() + "/" + std::string(100, 'x')});
  EXPECT_EQ(deep.RunToExit(), kFailed);
  EXPECT_THAT(deep.Log(), HasSubstr("choose a shorter directory"));
}

TEST(Start, StateDirectoryThatCannotBe) {
  TemporaryDaemon daemon({"--set", "paths.state=/proc/kiln"});
  EXPECT_EQ(daemon.RunToExit(), kFailed);
  EXPECT_THAT(daemon.Log(), HasSubstr("cannot make /proc/kiln"));

  TemporaryDaemon file;
  fs::remove_all(file.root() + "/state");
  std::ofstream(file.root() + "/state") << "x";
  EXPECT_EQ(file.RunToExit(), kFailed);
  EXPECT_THAT(file.Log(), HasSubstr("not a directory"));
}

// Their directory may be on a network that is not there yet.
TEST(Start, TrustedOwnerWhoIsNotKnownIsLeftOut) {
  TemporaryDaemon daemon({"--set", "toolchain.trusted_owners=no-such-user:root"});
  daemon.Start();
  EXPECT_TRUE(daemon.Connect()->Compile(SimpleKernel(1)).ok());
  EXPECT_THAT(daemon.Log(), HasSubstr("toolchain.trusted_owners"));
  EXPECT_THAT(daemon.Log(), HasSubstr("no-such-user"));
}

TEST(Start, DamagedStoreIsSetAside) {
  TemporaryDaemon daemon;
  daemon.Start();
  ASSERT_TRUE(daemon.Connect()->Compile(SimpleKernel(1)).ok());
  ASSERT_EQ(daemon.Stop(), 0);
  for (const auto& entry : fs::directory_iterator(daemon.root() + "/state/store")) {
    if (entry.path().filename().string().starts_with("MANIFEST")) {
      std::ofstream(entry.path()) << "garbage";
    }
  }
  daemon.Start();
  const auto again = daemon.Connect()->Compile(SimpleKernel(1));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->outcome(), v1::OUTCOME_COMPILED);
  EXPECT_THAT(daemon.Log(), HasSubstr("set it aside"));
  size_t set_aside = 0;
  for (const auto& entry : fs::directory_iterator(daemon.root() + "/state")) {
    set_aside += entry.path().filename().string().starts_with("store.damaged-") ? 1 : 0;
  }
  EXPECT_EQ(set_aside, 1u);
}

// The floor of free space stands in for a disk that is full, which a test cannot make everywhere.
TEST(Start, FullDiskNeverBreaksACompile) {
  TemporaryDaemon daemon({"--set", "store.free_disk=64TiB"});
  daemon.Start();
  const auto client = daemon.Connect();
  for (int i = 0; i < 2; ++i) {
    const auto answer = client->Compile(SimpleKernel(1));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->outcome(), v1::OUTCOME_COMPILED);
  }
  grpc::ClientContext context;
  admin::v1::GetStatsResponse stats;
  ASSERT_TRUE(admin::v1::AdminService::NewStub(ConnectTo(daemon.admin_socket()))
                  ->GetStats(&context, {}, &stats)
                  .ok());
  EXPECT_EQ(stats.state(), "degraded");
  EXPECT_NE(stats.state_reason(), "");
}

TEST(Start, BadUsageAndBadConfiguration) {
  TemporaryDaemon flag({"--no-such-flag"});
  EXPECT_EQ(flag.RunToExit(), kBadUsage);
  TemporaryDaemon setting({"--set", "store.sise=1GiB"});
  EXPECT_EQ(setting.RunToExit(), kBadUsage);
  EXPECT_THAT(setting.Log(), HasSubstr("[store] has store.size, "));
  TemporaryDaemon file({"--config", "/nonexistent/kilnd.toml"});
  EXPECT_EQ(file.RunToExit(), kBadUsage);
  TemporaryDaemon check({"--check-config"});
  EXPECT_EQ(check.RunToExit(), 0);
}

}  // namespace
}  // namespace kiln
