// gpu_launch_test ARTIFACTS [DRIVER] [--gtest_…]: each test is one check of libkiln_launch on a
// GPU.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/gpu/launch/gpu.h"

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (count < 2) {
    std::fprintf(stderr, "usage: gpu_launch_test ARTIFACTS [DRIVER]\n");
    return 2;
  }
  kiln::gpu::places().artifacts = arguments[1];
  if (count > 2) kiln::gpu::places().driver = arguments[2];
  return RUN_ALL_TESTS();
}
