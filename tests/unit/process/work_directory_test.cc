#include "daemon/process/work_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/testing/as_each_user.h"
#include "tests/testing/no_more_descriptors.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(WorkDirectoryTest, MakesAndEmptiesADirectory) {
  const TempDirectory directory;
  AsEachUser(directory.path(), [] {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(MakeEmptyDirectory("work").ok());
      EXPECT_THAT(NamesIn("work"), IsEmpty());
      WriteFileOrDie("work/file", "x");
      std::filesystem::create_directories("work/a/b");
      ASSERT_EQ(::chmod("work/a", 0300), 0);
    }
    EXPECT_TRUE(MakeEmptyDirectory("work").ok());
    EXPECT_THAT(NamesIn("work"), IsEmpty());
    EXPECT_THAT(NamesIn("."), UnorderedElementsAre("work"));
    ASSERT_EQ(::rmdir("work"), 0);
  });
}

TEST(WorkDirectoryTest, SetsADirectoryAsideThatCannotBeEmptied) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to have another user's files";
  const TempDirectory directory;
  // Twice, since the first must not be in the way of the second.
  for (const char* name : {"work", "work.aside-0"}) {
    const std::string path = directory.File(name);
    std::filesystem::create_directories(path + "/theirs");
    WriteFileOrDie(path + "/theirs/file", "x");
    WriteFileOrDie(path + "/ours", "x");
    ASSERT_EQ(::chown(path.c_str(), kAnotherUser, kAnotherUser), 0);
  }
  AsEachUser(directory.path(), [] {
    if (::geteuid() == 0) return;
    const absl::Status made = MakeEmptyDirectory("work");
    EXPECT_TRUE(made.ok()) << made;
    EXPECT_THAT(NamesIn("work"), IsEmpty());
    EXPECT_THAT(NamesIn("work.aside-1"), UnorderedElementsAre("theirs"));
  });
}

// That passes, and what was set aside would stay.
TEST(WorkDirectoryTest, LackOfDescriptorsSetsNothingAside) {
  const TempDirectory directory;
  const std::string path = directory.File("work");
  std::filesystem::create_directories(path);
  WriteFileOrDie(path + "/file", "x");
  {
    const NoMoreDescriptors shortage;
    EXPECT_TRUE(absl::IsResourceExhausted(MakeEmptyDirectory(path)));
  }
  EXPECT_THAT(NamesIn(directory.path()), UnorderedElementsAre("work"));
  EXPECT_TRUE(MakeEmptyDirectory(path).ok());
  EXPECT_THAT(NamesIn(path), IsEmpty());
}

TEST(WorkDirectoryTest, MissingParentSetsNothingAside) {
  const TempDirectory directory;
  EXPECT_TRUE(absl::IsNotFound(MakeEmptyDirectory(directory.File("absent/work"))));
  EXPECT_THAT(NamesIn(directory.path()), IsEmpty());
}

}  // namespace
}  // namespace kiln
