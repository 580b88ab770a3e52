#include "daemon/kernel/artifact_reader.h"

#include <gtest/gtest.h>

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
    return reader_.Read(CallContext(), found, wanted);
  }

  FakeClock clock_;
  MemoryStore store_{uint64_t{1} << 30, clock_};
  ArtifactReader reader_{store_.blobs()};
  const std::shared_ptr<const Artifact> artifact_ = MakeArtifactOf(*MakeJob("a"));
};

TEST_F(ArtifactReaderTest, GivesTheFinalBinaryUnlessMoreIsWanted) {
  const FoundArtifact found = Keep(*artifact_);
  EXPECT_EQ(Read(found)->artifact->stages.size(), 1u);
  EXPECT_EQ(Read(found)->artifact->stages[0].stage, "cubin");
  EXPECT_EQ(Read(found, {"cubin", "ptx"})->artifact->stages[0].stage, "ptx");
  EXPECT_EQ(Read(found, {"sass"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactReaderTest, AStageWithoutItsBlobIsNotThere) {
  const FoundArtifact found = Keep(*artifact_, "ptx");
  EXPECT_TRUE(Read(found).ok());
  EXPECT_EQ(Read(found, {"ptx"}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactReaderTest, ARecordWithoutStagesIsDamaged) {
  Artifact empty = *artifact_;
  empty.stages.clear();
  EXPECT_EQ(Read(Keep(empty)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ArtifactReaderTest, DecodesAnUnchangedDocumentOnce) {
  const FoundArtifact found = Keep(*artifact_);
  const auto first = *reader_.Document(found.record);
  const auto same_text = std::make_shared<const ArtifactRecord>(*found.record);
  EXPECT_EQ(*reader_.Document(same_text), first);
}

TEST_F(ArtifactReaderTest, DecodesAChangedDocumentAnew) {
  const auto first = *reader_.Document(Keep(*artifact_).record);
  Artifact renewed = *artifact_;
  renewed.metadata.name = "renewed";
  EXPECT_EQ((*reader_.Document(Keep(renewed).record))->metadata.name, "renewed");
  EXPECT_EQ(first->metadata.name, "kernel");
}

}  // namespace
}  // namespace kiln
