#include "daemon/worker/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

TEST(AllocatorTest, TheOneThatWasCarriedAlongComesFirst) {
  const TempDirectory directory;
  const std::string carried = directory.File("libjemalloc.so.2");
  EXPECT_NE(FindJemalloc(directory.path()), carried);
  WriteFileOrDie(carried, "");
  EXPECT_EQ(FindJemalloc(directory.path()), carried);
}

TEST(AllocatorTest, WhereThereIsNoneTheEnvironmentSaysNothing) {
  EXPECT_TRUE(AllocatorEnvironment("").empty());
  EXPECT_THAT(AllocatorEnvironment("/lib/libjemalloc.so.2"),
              testing::ElementsAre("LD_PRELOAD=/lib/libjemalloc.so.2",
                                   testing::StartsWith("MALLOC_CONF=")));
}

}  // namespace
}  // namespace kiln
