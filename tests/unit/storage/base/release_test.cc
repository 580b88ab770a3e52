#include "storage/base/release.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(ReleaseTest, ThreeNumbers) {
  for (const char* version : {"3.6.0", "12.9.86", "0.0.0"}) EXPECT_TRUE(IsRelease(version));
  for (const char* version : {"", ".", "..", "3", "3.6", "3.6.", "3..6", ".3.6", "3.6.0.",
                              "3.6.0.1", "3.6.0rc1", "3.6.x", "3,6.0", "-3.6.0"}) {
    EXPECT_FALSE(IsRelease(version)) << version;
  }
}

}  // namespace
}  // namespace kiln
