#include "daemon/toolchain/version.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

TEST(VersionTest, FallsIntoTheOrderOfReleases) {
  const std::vector<const char*> rising = {
      "nightly",    "",      "2.3.1", "3.4.0",     "3.6.0a1",      "3.6.0rc1", "3.6.0",
      "3.6.0+rocm", "3.6.1", "3.9",   "3.9.post1", "3.10.0.dev20", "3.10.0",   "10.0"};
  for (size_t i = 0; i < rising.size(); ++i) {
    for (size_t j = 0; j < rising.size(); ++j) {
      EXPECT_EQ(Version(rising[i]) < Version(rising[j]), i < j) << rising[i] << " " << rising[j];
    }
  }
}

TEST(VersionTest, AMissingNumberIsZero) { EXPECT_TRUE(Version("3.6") == Version("3.6.0")); }

TEST(VersionTest, ReleasesCompareWithoutWhatFollowsThem) {
  EXPECT_TRUE(Version("3.6.0rc1").CompareRelease(Version("3.6.0+rocm7")) == 0);
  EXPECT_TRUE(Version("3.4.9").CompareRelease(Version("3.5")) < 0);
  EXPECT_TRUE(Version("3.10").CompareRelease(Version("3.9.9")) > 0);
}

TEST(VersionTest, NumbersThatNoTypeHoldsAreNoNumbers) {
  EXPECT_TRUE(Version("99999999999999999999999.1") < Version("0.1"));
}

}  // namespace
}  // namespace kiln
