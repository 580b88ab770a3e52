#include "daemon/kernel/artifact_reader.h"

#include <gtest/gtest.h>

#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

class ArtifactReaderTest : public testing::Test {
 protected:
  // Stored with every blob of `artifact` but those of `without`.
  FoundArtifact Keep(const Artifact& artifact, std::string_view without = "") {
    std::vector<Blob> blobs;
    for (const StageBlob& stage : artifact.stages) {
      if (stage.stage != without) blobs.push_back(stage.blob);
    }
    const auto record = std::make_shared<const ArtifactRecord>(MakeRecord(artifact));
    EXPECT_TRUE(store_.Put(CallContext(), *record, blobs).ok());
    return {record, {}, Tier::kMemory};
  }
  absl::StatusOr<ReadArtifact> Read(const FoundArtifact& found,
                                    std::vector<std::string> wanted = {}) {
    return LoadArtifact(CallContext(), store_, found, wanted);
  }

  FakeClock clock_;
  MemoryStore store_{uint64_t{1} << 30, clock_};
  const std::shared_ptr<const Artifact> artifact_ = MakeArtifactOf(*MakeJob("a"));
};

TEST_F(ArtifactReaderTest, GivesTheFinalBinaryUnlessMoreIsWanted) {
  const FoundArtifact found = Keep(*artifact_);
  EXPECT_EQ(Read(found)->artifact->stages.size(), 1u);
  EXPECT_EQ(Read(found)->artifact->stages[0].stage, "cubin");
  EXPECT_EQ(Read(found, {"cubin", "ptx"})->artifact->stages[0].stage, "ptx");
  EXPECT_EQ(Read(found, {"sass"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactReaderTest, ABinaryThatCameWithTheRecordIsNotReadAgain) {
  FoundArtifact found = Keep(*artifact_, "cubin");
  EXPECT_EQ(Read(found).status().code(), absl::StatusCode::kNotFound);
  found.binary = artifact_->stages.back().blob;
  found.tier = Tier::kDisk;
  const auto read = Read(found, {"ptx"});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->artifact->stages[0].stage, "ptx");
  EXPECT_EQ(read->artifact->stages[1].blob.digest(), found.binary->digest());
  EXPECT_EQ(read->tier, Tier::kDisk);
}

TEST_F(ArtifactReaderTest, StageWithoutItsBlobIsMissing) {
  const FoundArtifact found = Keep(*artifact_, "ptx");
  EXPECT_TRUE(Read(found).ok());
  EXPECT_EQ(Read(found, {"ptx"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactReaderTest, ARecordWithoutStagesIsDamaged) {
  Artifact empty = *artifact_;
  empty.stages.clear();
  EXPECT_EQ(Read(Keep(empty)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ArtifactReaderTest, ADescriptionTakesThePlaceOfTheDocument) {
  artifact_->description.Set(std::make_unique<const std::string>("described"));
  FoundArtifact found = Keep(*artifact_);
  ArtifactRecord record = *found.record;
  record.document = "damaged";
  found.record = std::make_shared<const ArtifactRecord>(record);
  for (const std::vector<std::string>& wanted : {std::vector<std::string>(), {"ptx"}}) {
    const auto read = Read(found, wanted);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read->artifact->description.Get(), "described");
  }
  record.description[0] = kDescriptionVersion + 1;
  found.record = std::make_shared<const ArtifactRecord>(record);
  EXPECT_EQ(Read(found).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ArtifactReaderTest, ReadsAKeptRecordOnce) {
  FoundArtifact found = Keep(*artifact_);
  found.tier = Tier::kDisk;
  const ReadArtifact first = *Read(found);
  EXPECT_EQ(first.tier, Tier::kDisk);
  found.tier = Tier::kMemory;
  ASSERT_TRUE(store_.Remove(CallContext(), found.record->key).ok());  // the blob goes, too
  EXPECT_EQ(Read(found)->artifact, first.artifact);
  EXPECT_EQ(Read(found, {"cubin"})->artifact, first.artifact);
  EXPECT_EQ(Read(found)->tier, Tier::kMemory);
  EXPECT_EQ(Read(found, {"ptx"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactReaderTest, ReadArtifactOutlivesItsRecord) {
  std::shared_ptr<const Artifact> read = Read(Keep(*artifact_))->artifact;
  EXPECT_EQ(read.use_count(), 1);
  EXPECT_EQ(read->stages.back().blob.bytes(), artifact_->stages.back().blob.bytes());
}

TEST_F(ArtifactReaderTest, ALargeBinaryIsNotKeptWithTheRecord) {
  Artifact large = *artifact_;
  large.stages.back().blob = Blob::FromBytes(std::string(limits::kInlineBytesMax + 1, 'x'));
  const FoundArtifact found = Keep(large);
  EXPECT_TRUE(Read(found).ok());
  ASSERT_TRUE(store_.Remove(CallContext(), found.record->key).ok());
  EXPECT_EQ(Read(found).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactReaderTest, DecodesAChangedDocumentAnew) {
  const auto first = Read(Keep(*artifact_))->artifact;
  Artifact renewed = *artifact_;
  renewed.metadata.name = "renewed";
  EXPECT_EQ(Read(Keep(renewed))->artifact->metadata.name, "renewed");
  EXPECT_EQ(first->metadata.name, "kernel");
}

}  // namespace
}  // namespace kiln
