#include "daemon/process/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

absl::Status Anything(const std::string&, const std::string&) { return absl::OkStatus(); }

TEST(AllocatorTest, BundledAllocatorComesFirst) {
  const TempDirectory directory;
  const std::string carried = directory.File("libjemalloc.so.2");
  EXPECT_NE(FindJemalloc(directory.path(), Anything), carried);
  WriteFileOrDie(carried, "");
  EXPECT_EQ(FindJemalloc(directory.path(), Anything), carried);
}

TEST(AllocatorTest, SkipsALibraryThatMayNotBeRun) {
  const TempDirectory directory;
  const std::string carried = directory.File("libjemalloc.so.2");
  WriteFileOrDie(carried, "");
  const auto found = FindJemalloc(directory.path(), [&](const auto& searched, const auto& path) {
    return path == carried && searched == directory.path()
               ? FailedPrecondition("others may write to it")
               : absl::OkStatus();
  });
  EXPECT_NE(found, carried);
}

TEST(AllocatorTest, APathThatTheLoaderWouldTakeForTwoIsPassedOver) {
  const TempDirectory directory;
  for (const char* name : {"a blank", "a:colon"}) {
    const std::string beside = directory.File(name);
    std::filesystem::create_directory(beside);
    WriteFileOrDie(beside + "/libjemalloc.so.2", "");
    EXPECT_NE(FindJemalloc(beside, Anything), beside + "/libjemalloc.so.2");
  }
}

TEST(AllocatorTest, WithoutAnAllocatorTheEnvironmentIsEmpty) {
  EXPECT_TRUE(AllocatorEnvironment("").empty());
  EXPECT_THAT(AllocatorEnvironment("/lib/libjemalloc.so.2"),
              testing::ElementsAre("LD_PRELOAD=/lib/libjemalloc.so.2",
                                   testing::StartsWith("MALLOC_CONF="), kProgramAllocation));
}

}  // namespace
}  // namespace kiln
