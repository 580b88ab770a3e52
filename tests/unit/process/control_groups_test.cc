#include "daemon/process/control_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/policy/kernel_files.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ControlGroupsTest : public testing::Test {
 protected:
  ControlGroups Find(const std::string& own) {
    files_.Write("proc/self/cgroup", own);
    return files_.Groups();
  }
  std::string At(const std::string& path) { return files_.root() + "/sys/fs/cgroup" + path; }

  KernelFiles files_;
};

TEST_F(ControlGroupsTest, Version2) {
  const ControlGroups groups = Find(KernelFiles::kVersion2);
  EXPECT_THAT(groups.unified,
              ElementsAre(At("/system.slice/kilnd.service"), At("/system.slice"), At("")));
  EXPECT_THAT(groups.memory, IsEmpty());
  EXPECT_THAT(groups.cpu, IsEmpty());
}

TEST_F(ControlGroupsTest, MountOfANamespaceIsItsOwnGroup) {
  EXPECT_THAT(Find(KernelFiles::kVersion2Namespace).unified, ElementsAre(At("")));
  EXPECT_THAT(Find("0::/../../elsewhere\n").unified, ElementsAre(At("")));
}

TEST_F(ControlGroupsTest, Version1) {
  const ControlGroups groups = Find(KernelFiles::kVersion1);
  EXPECT_THAT(groups.memory, ElementsAre(At("/memory/system.slice/kilnd.service"),
                                         At("/memory/system.slice"), At("/memory")));
  EXPECT_THAT(groups.cpu, ElementsAre(At("/cpu/system.slice/kilnd.service"),
                                      At("/cpu/system.slice"), At("/cpu")));
}

TEST_F(ControlGroupsTest, Hybrid) {
  const ControlGroups groups = Find(KernelFiles::kHybrid);
  EXPECT_THAT(groups.cpu, ElementsAre(At("/cpu/system.slice"), At("/cpu")));
  EXPECT_EQ(groups.memory.size(), 3u);
  EXPECT_EQ(groups.unified.front(), At("/unified/system.slice/kilnd.service"));
}

TEST_F(ControlGroupsTest, AColonInANameIsPartOfIt) {
  EXPECT_EQ(Find("0::/a:b\n").unified.front(), At("/a:b"));
}

TEST_F(ControlGroupsTest, NonsenseIsNoGroup) {
  for (const char* text : {"", "\n\n", "garbage", "1:memory", "1:memory:relative", ":::"}) {
    const ControlGroups groups = Find(text);
    EXPECT_THAT(groups.memory, IsEmpty()) << text;
    EXPECT_THAT(groups.cpu, IsEmpty()) << text;
  }
  EXPECT_THAT(KernelFiles().Groups().memory, IsEmpty());
}

TEST(ReadNumber, ReadsNumbersAsKernelsWriteThem) {
  KernelFiles files;
  const auto number = [&files](const std::string& content) {
    files.Write("number", content);
    return ReadNumber(OsFilesystem(), files.root() + "/number");
  };
  EXPECT_EQ(number("12\n"), 12u);
  EXPECT_EQ(number("max\n"), std::nullopt);
  EXPECT_EQ(number("-1\n"), std::nullopt);
  EXPECT_EQ(number(""), std::nullopt);
  EXPECT_EQ(ReadNumber(OsFilesystem(), files.root() + "/absent"), std::nullopt);
}

TEST(ReadField, ReadsFieldsAsKernelsWriteThem) {
  KernelFiles files;
  files.Write("stat", "anon 1\ninactive_file_other 2\ninactive_file 3\nMemAvailable:   4 kB\n");
  const auto field = [&files](std::string_view name) {
    return ReadField(OsFilesystem(), files.root() + "/stat", name);
  };
  EXPECT_EQ(field("inactive_file"), 3u);
  EXPECT_EQ(field("MemAvailable:"), 4u);
  EXPECT_EQ(field("absent"), std::nullopt);
}

}  // namespace
}  // namespace kiln
