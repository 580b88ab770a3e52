#include "daemon/toolchain/known_bad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(KnownBadTest, VersionOutsideTheTableIsGood) {
  EXPECT_THAT(KnownBad("triton", "3.6.0", ""), IsEmpty());
  EXPECT_THAT(KnownBad("triton", "3.6.0", "cuda"), IsEmpty());
  EXPECT_THAT(KnownBad("triton", "3.5.0", "hip"), IsEmpty());
  EXPECT_THAT(KnownBad("triton", "3.5.0rc1", "hip"), IsEmpty());
  EXPECT_THAT(KnownBad("other", "3.4.0", "hip"), IsEmpty());
}

TEST(KnownBadTest, Triton34HasNoLinkerForAmd) {
  EXPECT_THAT(KnownBad("triton", "3.4.0", "hip"), HasSubstr("ld.lld"));
  EXPECT_THAT(KnownBad("triton", "3.4.1+local", "hip"), HasSubstr("ld.lld"));
  EXPECT_THAT(KnownBad("triton", "3.4.0", "cuda"), IsEmpty());
  EXPECT_THAT(KnownBad("triton", "3.4.0", ""), IsEmpty());
}

TEST(KnownBadTest, TritonBefore34IsTooOldForAnything) {
  EXPECT_THAT(KnownBad("triton", "3.3.1", ""), HasSubstr("knobs"));
  EXPECT_THAT(KnownBad("triton", "2.1.0", ""), HasSubstr("knobs"));
}

}  // namespace
}  // namespace kiln
