#include "storage/rocks/record_codec.h"

#include <gtest/gtest.h>

#include <string>

#include "storage/base/byte_codec.h"
#include "storage/base/checksum.h"
#include "storage/base/limits.h"
#include "tests/testing/artifacts.h"

namespace kiln {
namespace {

using absl::StatusCode;

std::string Encoded(const ArtifactRecord& record) {
  const auto encoded = EncodeRecord(record);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return encoded.value_or("");
}

TEST(RecordCodecTest, DecodesAnEncodedRecord) {
  const ArtifactRecord record = MakeArtifact("add").record;
  const auto decoded = DecodeRecord(Encoded(record), record.key);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
}

TEST(RecordCodecTest, ARecordOfTheFirstVersionHasNoDescription) {
  ArtifactRecord record = MakeArtifact("add").record;
  record.description.clear();
  std::string old = Encoded(record);
  old.resize(old.size() - sizeof(uint32_t) -
             sizeof(uint64_t));  // the description's length, the checksum
  old[0] = 1;
  ByteWriter writer;
  writer.Raw(old);
  writer.Number(Checksum64(old));
  const auto decoded = DecodeRecord(writer.bytes(), record.key);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
}

TEST(RecordCodecTest, AnotherKeysRecordIsDataLoss) {
  const ArtifactRecord record = MakeArtifact("add").record;
  EXPECT_EQ(DecodeRecord(Encoded(record), MadeKey("other")).status().code(), StatusCode::kDataLoss);
}

TEST(RecordCodecTest, TruncatedOrExtendedIsDataLoss) {
  const ArtifactRecord record = MakeArtifact("add").record;
  const std::string encoded = Encoded(record);
  for (size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_EQ(DecodeRecord(encoded.substr(0, size), record.key).status().code(),
              StatusCode::kDataLoss);
  }
  EXPECT_EQ(DecodeRecord(encoded + "x", record.key).status().code(), StatusCode::kDataLoss);
}

TEST(RecordCodecTest, AFlippedBitAnywhereIsDataLoss) {
  const ArtifactRecord record = MakeArtifact("add").record;
  const std::string encoded = Encoded(record);
  for (size_t at = 0; at < encoded.size(); ++at) {
    std::string damaged = encoded;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_EQ(DecodeRecord(damaged, record.key).status().code(), StatusCode::kDataLoss) << at;
  }
}

TEST(RecordCodecTest, LimitsHoldAtTheLimitAndBreakAboveIt) {
  ArtifactRecord record = MakeArtifact("big").record;
  record.stages.assign(limits::kStagesMax, record.stages[0]);
  EXPECT_TRUE(EncodeRecord(record).ok());
  record.stages.push_back(record.stages[0]);
  EXPECT_EQ(EncodeRecord(record).status().code(), StatusCode::kInvalidArgument);

  record.stages.clear();
  record.document.assign(limits::kRecordBytesMax, 'd');
  EXPECT_EQ(EncodeRecord(record).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kiln
