#include "storage/user_cache_record.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/testing/artifacts.h"

namespace kiln {
namespace {

UserCacheRecord Sample() {
  UserCacheRecord record{1000, std::string("a key\0with a zero", 17), {}};
  record.files.push_back({"kernel.json", Digest::Of("{}"), 2, std::nullopt});
  record.files.push_back(
      {"kernel.cubin", Digest::Of("cubin"), 5, ArtifactOutput{MadeKey("add"), "cubin"}});
  return record;
}

TEST(UserCacheRecordTest, DecodesTheEncodedRecord) {
  const auto decoded = DecodeUserCacheRecord(EncodeUserCacheRecord(Sample()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
}

TEST(UserCacheRecordTest, TruncatedAnywhereIsRefused) {
  const std::string whole = EncodeUserCacheRecord(Sample());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeUserCacheRecord(whole.substr(0, size)).status())) << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeUserCacheRecord(whole + "x").status()));
}

TEST(UserCacheRecordTest, DocumentOfAnArtifactIsRefused) {
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeUserCacheRecord(MakeArtifact("add").record.document).status()));
}

TEST(UserCacheRecordTest, KeysOfUsersDiffer) {
  const std::set<Digest> keys = {UserCacheKey(0, "a"), UserCacheKey(1000, "a"),
                                 UserCacheKey(1001, "a"), UserCacheKey(1000, "b"),
                                 UserCacheKey(1000, "")};
  EXPECT_EQ(keys.size(), 5u);
  for (const Digest& key : keys) EXPECT_TRUE(IsUserCacheKey(key));
}

TEST(UserCacheRecordTest, CompileKeyIsNoUserCacheKey) {
  EXPECT_FALSE(IsUserCacheKey(MadeKey("add")));
  EXPECT_FALSE(IsUserCacheKey(Digest()));
}

}  // namespace
}  // namespace kiln
