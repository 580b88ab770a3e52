#include "client/rpc/verified_contents.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln {
namespace {

constexpr size_t kBytesMax = 8000;

TEST(VerifiedContents, ComparesWithTheDigestTheFirstTimeAndAgain) {
  VerifiedContents verified(kBytesMax);
  const std::string content = "a binary";
  const Digest digest = Digest::Of(content);
  EXPECT_FALSE(verified.Matches(digest, "another")) << "nothing wrong is remembered";
  EXPECT_TRUE(verified.Matches(digest, content));
  EXPECT_TRUE(verified.Matches(digest, content));
  EXPECT_FALSE(verified.Matches(digest, "a binarx"));
  EXPECT_FALSE(verified.Matches(digest, "a binary and more"));
  EXPECT_TRUE(verified.Matches(digest, content)) << "a wrong one does not change what is known";
}

TEST(VerifiedContents, HashesLargeContentsEachTime) {
  VerifiedContents verified(kBytesMax);
  std::string content(kBytesMax / 8 + 1, 'x');
  const Digest digest = Digest::Of(content);
  EXPECT_TRUE(verified.Matches(digest, content));
  content.back() = 'y';
  EXPECT_FALSE(verified.Matches(digest, content));
}

TEST(VerifiedContents, HashesForgottenContentsAgain) {
  VerifiedContents verified(kBytesMax);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 10; ++i) {
      std::string content(kBytesMax / 8, static_cast<char>('a' + i));
      const Digest digest = Digest::Of(content);
      EXPECT_TRUE(verified.Matches(digest, content));
      content[0] = '.';
      EXPECT_FALSE(verified.Matches(digest, content));
    }
  }
}

TEST(VerifiedContents, HashesEachContentWithoutRoom) {
  VerifiedContents verified(0);
  const Digest digest = Digest::Of("a binary");
  EXPECT_TRUE(verified.Matches(digest, "a binary"));
  EXPECT_FALSE(verified.Matches(digest, "a binarx"));
}

}  // namespace
}  // namespace kiln
