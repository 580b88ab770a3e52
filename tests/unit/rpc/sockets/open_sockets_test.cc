#include "daemon/rpc/sockets/open_sockets.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct stat StatusOf(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

// A group that this process may give files to, but that they do not have by themselves.
std::optional<std::pair<std::string, gid_t>> OtherGroup() {
  std::vector<gid_t> own(static_cast<size_t>(::getgroups(0, nullptr)));
  EXPECT_GE(::getgroups(static_cast<int>(own.size()), own.data()), 0);
  if (::geteuid() == 0) own.push_back(1);  // root gives to whom it likes
  for (const gid_t gid : own) {
    if (gid == ::getegid()) continue;
    if (const group* found = ::getgrgid(gid)) return std::pair(std::string(found->gr_name), gid);
  }
  return std::nullopt;
}

class OpenSocketsTest : public ::testing::Test {
 protected:
  OpenSocketsTest() { std::filesystem::create_directory(directory_.File("systemd")); }

  // A socket as systemd passes it: listening, in a directory of its own choice.
  SocketFile Activated(const std::string& name) {
    const std::string path = directory_.File("systemd/" + name);
    auto made = SocketFile::Open({path, 0600, std::nullopt});
    EXPECT_TRUE(made.ok()) << made.status();
    return SocketFile::Adopt(UniqueFd(::dup(made->fd())), path);
  }
  bool IsThere(const std::string& path) const { return std::filesystem::exists(path); }

  TempDirectory directory_;
  const WantedSocket clients_{directory_.File("kilnd.sock"), 0660, "", false};
  const WantedSocket operators_{directory_.File("admin.sock"), 0600, "", true};
};

TEST_F(OpenSocketsTest, MakesThemInOrderWithTheirModes) {
  const auto sockets = OpenSockets({clients_, operators_}, {});
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  ASSERT_EQ(sockets->size(), 2u);
  EXPECT_EQ((*sockets)[0].file.path(), clients_.path);
  EXPECT_FALSE((*sockets)[0].is_admin);
  EXPECT_EQ(StatusOf(clients_.path).st_mode & 07777u, 0660u);
  EXPECT_EQ((*sockets)[1].file.path(), operators_.path);
  EXPECT_TRUE((*sockets)[1].is_admin);
  EXPECT_EQ(StatusOf(operators_.path).st_mode & 07777u, 0600u);
}

TEST_F(OpenSocketsTest, GivesThemToTheirGroup) {
  const auto other = OtherGroup();
  if (!other) GTEST_SKIP() << "this user is in one group only";
  WantedSocket shared = clients_;
  shared.group = other->first;
  const auto sockets = OpenSockets({shared, operators_}, {});
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_EQ(StatusOf(clients_.path).st_gid, other->second);
  EXPECT_EQ(StatusOf(operators_.path).st_gid, ::getegid());
}

TEST_F(OpenSocketsTest, GroupThatDoesNotExistIsNamedAndNothingStays) {
  WantedSocket shared = operators_;
  shared.group = "no-such-group";
  const auto sockets = OpenSockets({clients_, shared}, {});
  EXPECT_EQ(sockets.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(sockets.status())),
              AllOf(HasSubstr("no-such-group"), HasSubstr("admin.sock")));
  EXPECT_FALSE(IsThere(clients_.path));
  EXPECT_FALSE(IsThere(shared.path));
}

TEST_F(OpenSocketsTest, ActivatedOneIsTakenAsItIs) {
  std::vector<SocketFile> activated;
  activated.push_back(Activated("admin.sock"));
  const int fd = activated[0].fd();
  WantedSocket shared = operators_;
  shared.group = "no-such-group";  // is systemd's to set
  const auto sockets = OpenSockets({clients_, shared}, std::move(activated));
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_TRUE(IsThere(clients_.path));
  EXPECT_EQ((*sockets)[1].file.fd(), fd);
  EXPECT_TRUE((*sockets)[1].is_admin);
  EXPECT_FALSE(IsThere(operators_.path));
}

TEST_F(OpenSocketsTest, ActivatedOneThatNobodyWantsIsRefused) {
  // The second has a name that only ends like one that is wanted.
  for (const std::string name : {"metrics.sock", "old-kilnd.sock"}) {
    std::vector<SocketFile> activated;
    activated.push_back(Activated("kilnd.sock"));
    activated.push_back(Activated(name));
    const auto sockets = OpenSockets({clients_, operators_}, std::move(activated));
    EXPECT_EQ(sockets.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(Message(sockets.status())),
                AllOf(HasSubstr(name), HasSubstr("kilnd.sock, admin.sock")));
    EXPECT_FALSE(IsThere(operators_.path));
  }
}

TEST_F(OpenSocketsTest, ActivatedTwiceUnderOneNameIsRefused) {
  std::vector<SocketFile> activated;
  activated.push_back(Activated("kilnd.sock"));
  std::filesystem::remove(directory_.File("systemd/kilnd.sock"));
  activated.push_back(Activated("kilnd.sock"));
  EXPECT_EQ(OpenSockets({clients_, operators_}, std::move(activated)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(OpenSocketsTest, LeavesASocketWithAListenerAlone) {
  const auto first = OpenSockets({clients_}, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(OpenSockets({clients_}, {}).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(IsThere(clients_.path));
}

}  // namespace
}  // namespace kiln
