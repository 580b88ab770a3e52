#include "storage/base/blob.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Blob, NamesItselfByItsContent) {
  const Blob blob = Blob::FromBytes("abc");
  EXPECT_EQ(blob.digest(), Digest::Of("abc"));
  EXPECT_EQ(blob.bytes(), "abc");
  EXPECT_EQ(Blob().digest(), Digest::Of(""));
}

TEST(Blob, VerifiedBytesAreAcceptedAndOthersAreDataLoss) {
  EXPECT_EQ(Blob::Verify("abc", Digest::Of("abc"))->bytes(), "abc");
  EXPECT_EQ(Blob::Verify("abd", Digest::Of("abc")).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Blob::Verify("ab", Digest::Of("abc")).status().code(), absl::StatusCode::kDataLoss);
}

TEST(Blob, CopiesShareTheirBytes) {
  const Blob blob = Blob::FromBytes(std::string(1000, 'x'));
  const Blob copy = blob;
  EXPECT_EQ(copy.bytes().data(), blob.bytes().data());
}

}  // namespace
}  // namespace kiln
