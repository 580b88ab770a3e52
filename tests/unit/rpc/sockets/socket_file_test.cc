#include "daemon/rpc/sockets/socket_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

class SocketFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<SocketFile> Open(mode_t mode = 0600) {
    return SocketFile::Open({path_, mode, std::nullopt});
  }
  bool Exists() const { return std::filesystem::exists(std::filesystem::symlink_status(path_)); }

  TempDirectory directory_;
  const std::string path_ = directory_.File("kilnd.sock");
};

TEST_F(SocketFileTest, HasItsPermissionsAndGoesWithItsOwner) {
  for (const mode_t mode : {0600u, 0660u, 0666u}) {
    const auto file = Open(mode);
    ASSERT_TRUE(file.ok()) << file.status();
    struct stat status {};
    ASSERT_EQ(::lstat(path_.c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_mode & 07777u, mode);
  }
  EXPECT_FALSE(Exists());
}

TEST_F(SocketFileTest, LiveSocketIsRefused) {
  const auto first = Open();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(SocketFileTest, StaleSocketIsReplaced) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  UniqueFd dying(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(dying.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  dying.Reset();
  ASSERT_TRUE(Exists());
  EXPECT_TRUE(Open().ok());
}

TEST_F(SocketFileTest, LeavesAFileThatIsNotASocket) {
  WriteFileOrDie(path_, "x");
  EXPECT_THAT(std::string(Message(Open().status())), HasSubstr("a regular file"));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(std::string(Message(Open().status())), HasSubstr("a directory"));
  std::filesystem::remove(path_);
  // Even one that leads to a socket: who can make it leads elsewhere tomorrow.
  const auto elsewhere = SocketFile::Open({directory_.File("other"), 0600, std::nullopt});
  std::filesystem::create_symlink(directory_.File("other"), path_);
  EXPECT_THAT(std::string(Message(Open().status())), HasSubstr("a symbolic link"));
  EXPECT_EQ(Open().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Exists());
}

TEST_F(SocketFileTest, PathAtTheSystemsLimitAndOneByteMore) {
  const size_t room = sizeof(sockaddr_un::sun_path) - 1 - directory_.path().size() - 1;
  const std::string longest = directory_.File(std::string(room, 'x'));
  EXPECT_TRUE(SocketFile::Open({longest, 0600, std::nullopt}).ok());
  EXPECT_EQ(SocketFile::Open({longest + "x", 0600, std::nullopt}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SocketFileTest, NameThatSomebodyElseTookIsNotRemoved) {
  {
    auto first = Open();
    ASSERT_TRUE(first.ok());
    std::filesystem::remove(path_);
    WriteFileOrDie(path_, "somebody else's");
  }
  EXPECT_TRUE(Exists());
}

TEST_F(SocketFileTest, DirectoryThatIsNotThere) {
  const auto file = SocketFile::Open({directory_.File("no/kilnd.sock"), 0600, std::nullopt});
  EXPECT_THAT(std::string(Message(file.status())), HasSubstr("no/kilnd.sock"));
}

}  // namespace
}  // namespace kiln
