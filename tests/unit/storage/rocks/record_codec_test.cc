#include "storage/rocks/record_codec.h"

#include <gtest/gtest.h>

#include <optional>
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

// The record as an earlier version wrote it, which lacked the last `fields`. They must be empty.
std::string OfVersion(uint8_t version, size_t fields, const ArtifactRecord& record) {
  std::string old = Encoded(record);
  old.resize(old.size() - fields * sizeof(uint32_t) - sizeof(uint64_t));  // lengths, the checksum
  old[0] = static_cast<char>(version);
  ByteWriter writer;
  writer.Raw(old);
  writer.Number(Checksum64(old));
  return writer.Take();
}

TEST(RecordCodecTest, ABinaryComesBackWhereItIsAskedFor) {
  const MadeArtifact made = MakeArtifact("add");
  const auto encoded = EncodeRecord(made.record, made.blobs.back().bytes());
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  std::optional<Blob> binary;
  const auto decoded = DecodeRecord(*encoded, made.record.key, &binary);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, made.record);
  ASSERT_TRUE(binary.has_value());
  EXPECT_EQ(binary->bytes(), made.blobs.back().bytes());
  EXPECT_EQ(*DecodeRecord(*encoded, made.record.key), made.record);

  binary.reset();
  ASSERT_TRUE(DecodeRecord(Encoded(made.record), made.record.key, &binary).ok());
  EXPECT_FALSE(binary.has_value());
}

TEST(RecordCodecTest, ABinaryThatIsNotTheLastStageIsDataLoss) {
  ArtifactRecord record = MakeArtifact("add").record;
  for (const bool has_stages : {true, false}) {
    if (!has_stages) record.stages.clear();
    const auto encoded = EncodeRecord(record, "another binary");
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    std::optional<Blob> binary;
    EXPECT_EQ(DecodeRecord(*encoded, record.key, &binary).status().code(), StatusCode::kDataLoss);
    EXPECT_FALSE(binary.has_value());
  }
}

TEST(RecordCodecTest, ARecordOfTheSecondVersionHasNoBinary) {
  const ArtifactRecord record = MakeArtifact("add").record;
  std::optional<Blob> binary;
  const auto decoded = DecodeRecord(OfVersion(2, 1, record), record.key, &binary);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
  EXPECT_FALSE(binary.has_value());
}

TEST(RecordCodecTest, ARecordOfTheFirstVersionHasNoDescription) {
  ArtifactRecord record = MakeArtifact("add").record;
  record.description.clear();
  const auto decoded = DecodeRecord(OfVersion(1, 2, record), record.key);
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
