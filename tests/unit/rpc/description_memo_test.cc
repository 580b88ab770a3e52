#include "daemon/rpc/description_memo.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/messages/translate.h"
#include "storage/base/limits.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

void ExpectDescribes(const std::string& bytes, const Artifact& artifact) {
  v1::CompileResponse expected, parsed;
  DescribeTo(artifact, expected);
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(parsed, expected));
}

TEST(DescriptionMemo, EncodesOnceWhatStaysTheSame) {
  DescriptionMemo memo(10, limits::kMiB);
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  const auto first = memo.Encode(*artifact);
  ExpectDescribes(*first, *artifact);
  EXPECT_EQ(memo.Encode(Artifact(*artifact)), first);
}

TEST(DescriptionMemo, OtherValuesUnderTheSameKeyAreEncodedAnew) {
  DescriptionMemo memo(10, limits::kMiB);
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  (void)memo.Encode(*artifact);
  Artifact refreshed = *artifact;
  refreshed.metadata.toolchain_metadata += " ";
  ExpectDescribes(*memo.Encode(refreshed), refreshed);
  refreshed.timings.push_back({"cubin", 7});
  ExpectDescribes(*memo.Encode(refreshed), refreshed);
  ++refreshed.provenance.compiled_unix_ms;
  ExpectDescribes(*memo.Encode(refreshed), refreshed);
}

TEST(DescriptionMemo, KeysAreKeptApart) {
  DescriptionMemo memo(10, limits::kMiB);
  const auto a = MakeArtifactOf(*MakeJob("a"));
  Artifact b = *MakeArtifactOf(*MakeJob("b"));
  b.metadata.num_warps += 1;
  const auto bytes = memo.Encode(*a);
  ExpectDescribes(*memo.Encode(b), b);
  EXPECT_EQ(memo.Encode(*a), bytes);
}

TEST(DescriptionMemo, ForgetsWhatWasUsedLeastRecently) {
  DescriptionMemo memo(2, limits::kMiB);
  const auto a = MakeArtifactOf(*MakeJob("a"));
  const auto b = MakeArtifactOf(*MakeJob("b"));
  const auto of_a = memo.Encode(*a);
  const auto of_b = memo.Encode(*b);
  EXPECT_EQ(memo.Encode(*a), of_a);
  (void)memo.Encode(*MakeArtifactOf(*MakeJob("c")));
  EXPECT_EQ(memo.Encode(*a), of_a);
  EXPECT_NE(memo.Encode(*b), of_b);
}

TEST(DescriptionMemo, EncodesWhatItHasNoRoomFor) {
  DescriptionMemo memo(10, 1);
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  ExpectDescribes(*memo.Encode(*artifact), *artifact);
  ExpectDescribes(*memo.Encode(*artifact), *artifact);
}

}  // namespace
}  // namespace kiln
