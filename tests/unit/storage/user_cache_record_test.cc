#include "storage/user_cache_record.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/testing/artifacts.h"

namespace kiln {
namespace {

OwnRecord Sample() {
  OwnRecord record{1000, std::string("a key\0with a zero", 17), {}};
  record.files.push_back({"kernel.json", Digest::Of("{}"), 2, std::nullopt});
  record.files.push_back(
      {"kernel.cubin", Digest::Of("cubin"), 5, ArtifactOutput{MadeKey("add"), "cubin"}});
  return record;
}

TEST(OwnRecordTest, ComesBackAsItWas) {
  const auto decoded = DecodeOwnRecord(EncodeOwnRecord(Sample()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
}

TEST(OwnRecordTest, NoBeginningOfOneIsOne) {
  const std::string whole = EncodeOwnRecord(Sample());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeOwnRecord(whole.substr(0, size)).status())) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeOwnRecord(whole + "x").status()));
}

TEST(OwnRecordTest, AnArtifactsDocumentIsNone) {
  EXPECT_TRUE(absl::IsDataLoss(DecodeOwnRecord(MakeArtifact("add").record.document).status()));
}

TEST(OwnRecordTest, EachUserHasKeysOfTheirOwn) {
  const std::set<Digest> keys = {OwnKey(0, "a"), OwnKey(1000, "a"), OwnKey(1001, "a"),
                                 OwnKey(1000, "b"), OwnKey(1000, "")};
  EXPECT_EQ(keys.size(), 5u);
  for (const Digest& key : keys) EXPECT_TRUE(IsOwnKey(key));
}

TEST(OwnRecordTest, AnArtifactsKeyIsNoOwnKey) {
  EXPECT_FALSE(IsOwnKey(MadeKey("add")));
  EXPECT_FALSE(IsOwnKey(Digest()));
}

}  // namespace
}  // namespace kiln
