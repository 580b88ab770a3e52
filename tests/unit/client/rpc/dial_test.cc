#include "client/rpc/dial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "storage/base/unique_fd.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

ConnectOptions OptionsFor(const std::string& path) {
  ConnectOptions options;
  options.socket_path = path;
  options.connect_budget = std::chrono::milliseconds(20);
  return options;
}

TEST(Dial, ConnectsToALocalServer) {
  const TempDirectory directory;
  const DeafListener listener(directory.File("s"));
  const auto descriptor = Dial(OptionsFor(directory.File("s")));
  ASSERT_TRUE(descriptor.ok()) << descriptor.status();
  const UniqueFd owned(*descriptor);
}

TEST(Dial, NoSocketAndAStaleSocketAreUnavailable) {
  const TempDirectory directory;
  const auto missing = Dial(OptionsFor(directory.File("s")));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(missing.status())), HasSubstr("there is no socket"));
  { const DeafListener gone(directory.File("s")); }
  const auto stale = Dial(OptionsFor(directory.File("s")));
  EXPECT_EQ(stale.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(stale.status())), HasSubstr("no process listens"));
}

TEST(Dial, FileThatIsNotASocketIsNamed) {
  const TempDirectory directory;
  const std::string file = directory.File("s");
  WriteFileOrDie(file, "");
  EXPECT_EQ(Dial(OptionsFor(file)).status(),
            Unavailable("{} is a file, not a daemon's socket", file));
  EXPECT_EQ(Dial(OptionsFor(directory.path())).status(),
            Unavailable("{} is a directory, not a daemon's socket", directory.path()));
}

TEST(Dial, APathThatIsTooLongIsNamed) {
  EXPECT_EQ(Dial(OptionsFor("/" + std::string(107, 'x'))).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Dial(OptionsFor("")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Dial(OptionsFor("/" + std::string(106, 'x'))).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(Dial, AFullQueueIsTriedUntilTheBudgetIsSpent) {
  const TempDirectory directory;
  const DeafListener listener(directory.File("s"), 0);
  std::vector<UniqueFd> waiting;
  absl::Status status;
  // The kernel rounds the length of the queue as it likes.
  while (status.ok() && waiting.size() < 100) {
    const auto descriptor = Dial(OptionsFor(directory.File("s")));
    if (descriptor.ok()) waiting.emplace_back(*descriptor);
    status = descriptor.status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("stayed full"));
}

TEST(Dial, TrustsServersOfRootOwnAndConfiguredUid) {
  EXPECT_TRUE(MayServe(0, 1000, std::nullopt));
  EXPECT_TRUE(MayServe(1000, 1000, std::nullopt));
  EXPECT_FALSE(MayServe(1001, 1000, std::nullopt));
  EXPECT_TRUE(MayServe(1001, 1000, 1001));
  EXPECT_FALSE(MayServe(1002, 1000, 1001));
  EXPECT_FALSE(MayServe(65534, 0, std::nullopt));
}

// Only root can play somebody else; as anybody else there is only ourselves to connect to, which
// the tests above do.
TEST(Dial, ASocketThatSomebodyElseServesIsRefused) {
  if (::geteuid() != 0) return;
  constexpr uid_t kStranger = 65534;
  const TempDirectory directory;
  const std::string path = directory.File("s");
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  ASSERT_EQ(::seteuid(kStranger), 0);
  const DeafListener listener(path);
  ASSERT_EQ(::seteuid(0), 0);
  const auto refused = Dial(OptionsFor(path));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(Message(refused.status())), HasSubstr("uid 65534"));
  ConnectOptions trusting = OptionsFor(path);
  trusting.server_uid = kStranger;
  const auto accepted = Dial(trusting);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  const UniqueFd owned(*accepted);
}

}  // namespace
}  // namespace kiln
