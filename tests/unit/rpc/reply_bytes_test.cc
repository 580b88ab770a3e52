#include "daemon/rpc/reply_bytes.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "daemon/kernel/artifact_document.h"
#include "daemon/messages/translate.h"
#include "storage/base/limits.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

std::string Joined(const ReplyPieces& pieces) {
  std::string bytes;
  for (const ReplyPiece& piece : pieces) bytes += BytesOf(piece);
  return bytes;
}

v1::CompileResponse Parse(const ReplyPieces& pieces) {
  v1::CompileResponse response;
  EXPECT_TRUE(response.ParseFromString(Joined(pieces)));
  return response;
}

void ExpectSame(const Artifact& artifact, const std::vector<std::string>& stages) {
  v1::CompileResponse expected;
  ASSERT_TRUE(ToProto(artifact, Outcome::kHit, Tier::kDisk, stages, expected).ok());
  for (const char* description : {"encoded now", "encoded before"}) {
    SCOPED_TRACE(description);
    const auto bytes = SerializeReply(artifact, Outcome::kHit, Tier::kDisk, stages);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(Joined(*bytes).size(), expected.ByteSizeLong());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(Parse(*bytes), expected));
  }
}

TEST(ReplyBytes, MatchTheSerializedMessage) {
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  ExpectSame(*artifact, {});
  ExpectSame(*artifact, {"cubin"});
  ExpectSame(*artifact, {"cubin", "ptx"});
  ExpectSame(*artifact, {"ptx", "ptx"});
}

TEST(ReplyBytes, ContentsOfEverySizeClass) {
  for (const size_t size : {0u, 1u, 127u, 128u, 16'383u, 16'384u, 3'000'000u}) {
    Artifact artifact = *MakeArtifactOf(*MakeJob("a"));
    artifact.stages.back().blob = Blob::FromBytes(Noise(1, size));
    ExpectSame(artifact, {});
  }
}

TEST(ReplyBytes, LeaveOutContentPastTheInlineLimit) {
  Artifact artifact = *MakeArtifactOf(*MakeJob("a"));
  artifact.stages.back().blob = Blob::FromBytes(std::string(limits::kInlineBytesMax + 1, 'x'));
  ExpectSame(artifact, {});
}

// As a store gives it.
TEST(ReplyBytes, MatchForADescriptionWithoutADocument) {
  const auto whole = MakeArtifactOf(*MakeJob("a"));
  Artifact stored;
  stored.key = whole->key;
  stored.stages = whole->stages;
  stored.description.Set(std::make_unique<const std::string>(DescriptionOf(*whole)));
  ExpectSame(stored, {});
  v1::CompileResponse message;
  ASSERT_TRUE(ToProto(stored, Outcome::kHit, Tier::kDisk, {}, message).ok());
  EXPECT_EQ(message.metadata().name(), whole->metadata.name);

  Artifact damaged;
  damaged.key = whole->key;
  damaged.stages = whole->stages;
  damaged.description.Set(std::make_unique<const std::string>("\xff"));
  EXPECT_TRUE(absl::IsDataLoss(ToProto(damaged, Outcome::kHit, Tier::kDisk, {}, message)));
}

TEST(ReplyBytes, OfAStreamAreThoseOfItsMessage) {
  const CompileJobPtr job = MakeJob("a");
  const CompileResult hit{Outcome::kHit, Tier::kMemory, MakeArtifactOf(*job)};
  v1::CompileStreamResponse expected;
  expected.set_id(300);
  ASSERT_TRUE(
      ToProto(*hit.artifact(), hit.outcome, hit.tier, {}, *expected.mutable_response()).ok());
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(
      answer.ParseFromString(Joined(SerializeStreamAnswer(300, {hit, job}, StreamPlace::kAlone))));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(answer, expected));

  ASSERT_TRUE(answer.ParseFromString(
      Joined(SerializeStreamAnswer(300, {Internal("no"), job}, StreamPlace::kAlone))));
  EXPECT_EQ(answer.id(), 300u);
  EXPECT_EQ(answer.message(), "no");
  EXPECT_EQ(answer.key(), job->key.Bytes());
  EXPECT_FALSE(answer.has_response());
}

TEST(ReplyBytes, OutliveTheArtifact) {
  auto artifact = std::make_unique<Artifact>(*MakeArtifactOf(*MakeJob("a")));
  const std::string content(artifact->stages.back().blob.bytes());
  const auto bytes = SerializeReply(*artifact, Outcome::kHit, Tier::kMemory, {});
  artifact.reset();
  EXPECT_EQ(Parse(*bytes).stages(0).content(), content);
}

TEST(ReplyBytes, AnArtifactIsDescribedOnceAndItsChangedCopyAnew) {
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  ASSERT_TRUE(SerializeReply(*artifact, Outcome::kHit, Tier::kDisk, {}).ok());
  const std::string* described = artifact->description.Get();
  ASSERT_NE(described, nullptr);
  ASSERT_TRUE(SerializeReply(*artifact, Outcome::kHit, Tier::kMemory, {}).ok());
  EXPECT_EQ(artifact->description.Get(), described);
  Artifact renewed = *artifact;
  renewed.metadata.name = "renewed";
  EXPECT_EQ(Parse(*SerializeReply(renewed, Outcome::kHit, Tier::kDisk, {})).metadata().name(),
            "renewed");
}

// A stored description lacks a field that was added later, so its version has to be another.
TEST(ReplyBytes, DescriptionsAreOfTheVersionOfTheseFields) {
  EXPECT_EQ(kDescriptionVersion, '1');
  EXPECT_EQ(v1::KernelMetadata::descriptor()->field_count(), 20);
  EXPECT_EQ(v1::Target::descriptor()->field_count(), 3);
  EXPECT_EQ(v1::TensorDescriptorMetadata::descriptor()->field_count(), 5);
  EXPECT_EQ(v1::KernelParameter::descriptor()->field_count(), 2);
  EXPECT_EQ(v1::StageTiming::descriptor()->field_count(), 2);
  EXPECT_EQ(v1::Provenance::descriptor()->field_count(), 7);
}

TEST(ReplyBytes, AWholeBlobAsOneChunk) {
  for (const size_t size : {0u, 1u, 3'000'000u}) {
    const Blob blob = Blob::FromBytes(Noise(1, size));
    v1::FetchChunk chunk;
    ASSERT_TRUE(chunk.ParseFromString(Joined(SerializeChunk(blob))));
    EXPECT_EQ(chunk.content(), blob.bytes());
  }
}

TEST(ReplyBytes, MissingStage) {
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  const std::vector<std::string> absent{"hsaco"};
  EXPECT_EQ(SerializeReply(*artifact, Outcome::kHit, Tier::kDisk, absent).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace kiln
