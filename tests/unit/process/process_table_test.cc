#include "daemon/process/process_table.h"

#include <gtest/gtest.h>

#include "tests/testing/no_more_descriptors.h"

namespace kiln {
namespace {

// A caller that takes 0 for "no limit" would let a worker start any number of processes.
TEST(ProcessTableTest, ThreadsAreCountedWithoutADescriptorToo) {
  EXPECT_GT(RunningThreads(), 0u);
  const NoMoreDescriptors shortage;
  EXPECT_GT(RunningThreads(), 0u);
}

}  // namespace
}  // namespace kiln
