#include "storage/base/remove_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/base/unique_fd.h"
#include "tests/testing/as_each_user.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

// More than a process has descriptors.
constexpr int kLevels = 1000;

bool Exists(const char* path) {
  struct stat info;
  return ::lstat(path, &info) == 0;
}

void MakeFile(const char* path) {
  const UniqueFd file(::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
}

TEST(RemoveTreeTest, RemovesATreeAndAcceptsAMissingPath) {
  const TempDirectory directory;
  AsEachUser(directory.path(), [] {
    ASSERT_EQ(::mkdir("tree", 0700) | ::mkdir("tree/a", 0700) | ::mkdir("tree/a/b", 0700) |
                  ::mkdir("tree/a/empty", 0) | ::mkdir("tree/moved-up-0", 0700),
              0);
    MakeFile("tree/a/b/file");
    MakeFile("tree/moved-up-1");
    EXPECT_TRUE(RemoveTree("tree").ok());
    EXPECT_FALSE(Exists("tree"));
    EXPECT_TRUE(RemoveTree("tree").ok());
    MakeFile("file");
    EXPECT_TRUE(RemoveTree("file").ok());
    EXPECT_FALSE(Exists("file"));
  });
}

TEST(RemoveTreeTest, RemovesDirectoriesWithoutPermissions) {
  const TempDirectory directory;
  AsEachUser(directory.path(), [] {
    ASSERT_EQ(::mkdir("tree", 0700), 0);
    for (const mode_t mode : {0000u, 0100u, 0200u, 0300u, 0400u, 0500u, 0600u}) {
      const std::string outer = fmt::format("tree/{:o}", mode);
      for (const std::string& path : {outer, outer + "/inner", outer + "/inner/innermost"}) {
        ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
        MakeFile((path + "/file").c_str());
      }
      for (const char* inside : {"/inner/innermost", "/inner", ""}) {
        ASSERT_EQ(::chmod((outer + inside).c_str(), mode), 0);
      }
    }
    ASSERT_EQ(::chmod("tree", 0), 0);
    const absl::Status removed = RemoveTree("tree");
    EXPECT_TRUE(removed.ok()) << removed;
    EXPECT_FALSE(Exists("tree"));
  });
}

TEST(RemoveTreeTest, RemovesATreeDeeperThanTheDescriptorLimit) {
  const TempDirectory directory;
  AsEachUser(directory.path(), [] {
    ASSERT_EQ(::mkdir("tree", 0700), 0);
    UniqueFd level(::open("tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < kLevels; ++i) {
      ASSERT_EQ(::mkdirat(level.get(), "a-directory-with-a-long-name", 0700), 0);
      level = UniqueFd(::openat(level.get(), "a-directory-with-a-long-name",
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      ASSERT_TRUE(level);
    }
    const absl::Status removed = RemoveTree("tree");
    EXPECT_TRUE(removed.ok()) << removed;
    EXPECT_FALSE(Exists("tree"));
  });
}

TEST(RemoveTreeTest, RemovesLinksAndKeepsTheirTargets) {
  const TempDirectory directory;
  AsEachUser(directory.path(), [] {
    ASSERT_EQ(::mkdir("outside", 0700) | ::mkdir("tree", 0700) | ::mkdir("tree/a", 0700), 0);
    MakeFile("outside/file");
    for (const char* path : {"tree/link", "tree/a/link", "link"}) {
      ASSERT_EQ(::symlink("/proc/self/cwd/outside", path), 0);
    }
    EXPECT_TRUE(RemoveTree("tree").ok());
    EXPECT_TRUE(RemoveTree("link").ok());
    EXPECT_TRUE(Exists("outside/file"));
    EXPECT_FALSE(Exists("tree") || Exists("link"));
    EXPECT_TRUE(RemoveTree("outside").ok());
  });
}

TEST(RemoveTreeTest, ReturnsAnErrorAndRemovesTheRest) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to have another user's files";
  const TempDirectory directory;
  ASSERT_EQ(::mkdir(directory.File("tree").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(directory.File("tree/theirs").c_str(), 0755), 0);
  WriteFileOrDie(directory.File("tree/theirs/file"), "x");
  ASSERT_EQ(::chown(directory.File("tree").c_str(), kAnotherUser, kAnotherUser), 0);
  WriteFileOrDie(directory.File("tree/file"), "x");
  AsEachUser(directory.path(), [] {
    if (::geteuid() == 0) return;
    const absl::Status removed = RemoveTree("tree");
    EXPECT_TRUE(absl::IsPermissionDenied(removed)) << removed;
    EXPECT_TRUE(Exists("tree/theirs/file"));
    EXPECT_FALSE(Exists("tree/file"));
  });
}

}  // namespace
}  // namespace kiln
