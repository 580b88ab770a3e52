#include "storage/base/digest.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

// FIPS 180-2, appendix B.1.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Digest, MatchesThePublishedVector) { EXPECT_EQ(Digest::Of("abc").Hex(), kAbc); }

TEST(Digest, StreamedEqualsWhole) {
  DigestBuilder builder;
  builder.Update("a");
  builder.Update("");
  builder.Update("bc");
  EXPECT_EQ(builder.Finish(), Digest::Of("abc"));
}

TEST(Digest, HexRoundTripsInEitherCase) {
  std::string upper = kAbc;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(*Digest::FromHex(kAbc), Digest::Of("abc"));
  EXPECT_EQ(*Digest::FromHex(upper), Digest::Of("abc"));
}

TEST(Digest, RefusesWhatIsNotADigest) {
  EXPECT_EQ(Digest::FromHex("ab").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Digest::FromHex(std::string(64, 'g')).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Digest::FromBytes(std::string(31, '\0')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kiln
