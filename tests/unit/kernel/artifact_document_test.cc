#include "daemon/kernel/artifact_document.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

// No two fields alike, so that one read in place of another shows.
Artifact MakeFullArtifact() {
  Artifact artifact;
  artifact.key = Digest::Of("key");
  artifact.metadata = {.name = "kernel",
                       .target = {"cuda", "90", 32},
                       .shared_bytes = 1,
                       .num_warps = 2,
                       .num_ctas = 3,
                       .warp_size = 4,
                       .global_scratch_bytes = 5,
                       .global_scratch_align = 6,
                       .profile_scratch_bytes = 7,
                       .profile_scratch_align = 8,
                       .tensor_memory_columns = 9,
                       .cluster_dims = {10, 11, 12},
                       .launch_pdl = true,
                       .launch_cooperative_grid = false,
                       .registers = 13,
                       .spill_bytes = std::nullopt,
                       .tensor_descriptors = {{14, 15, 16, {17, 18}, true}},
                       .parameters = {{"x", "*fp32"}, {"", "i32"}},
                       .hidden_pointers = 19,
                       .toolchain_metadata = R"({"num_warps": 8, "ü": "\n"})"};
  artifact.timings = {{"ptx", 20}, {"cubin", std::numeric_limits<uint64_t>::max()}};
  artifact.provenance = {.toolchain = "triton==3.6.0",
                         .toolchain_fingerprint = Digest::Of("fingerprint"),
                         .assembler = "ptxas 12.8.93",
                         .kiln_version = "0.1.0",
                         .host = "host",
                         .compiled_unix_ms = 21,
                         .compile_micros = 22};
  artifact.stages = {{"ptx", Blob::FromBytes("text")}, {"cubin", Blob::FromBytes("binary")}};
  return artifact;
}

TEST(ArtifactDocument, ReadsWhatItWrote) {
  const Artifact artifact = MakeFullArtifact();
  const std::string text = WriteDocument(artifact);
  const absl::StatusOr<ArtifactDocument> document = ParseDocument(text);
  ASSERT_TRUE(document.ok()) << document.status();
  Artifact copy;
  copy.metadata = document->metadata;
  copy.timings = document->timings;
  copy.provenance = document->provenance;
  EXPECT_EQ(WriteDocument(copy), text);
  EXPECT_EQ(document->metadata.toolchain_metadata, artifact.metadata.toolchain_metadata);
  EXPECT_EQ(document->metadata.target, artifact.metadata.target);
  EXPECT_EQ(document->metadata.cluster_dims, artifact.metadata.cluster_dims);
  EXPECT_EQ(document->metadata.registers, 13);
  EXPECT_EQ(document->metadata.spill_bytes, std::nullopt);
  EXPECT_EQ(document->timings[1].micros, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(document->provenance.toolchain_fingerprint, Digest::Of("fingerprint"));
}

TEST(ArtifactDocument, TheRecordNamesEveryStage) {
  const Artifact artifact = MakeFullArtifact();
  const ArtifactRecord record = MakeRecord(artifact);
  EXPECT_EQ(record.key, artifact.key);
  EXPECT_EQ(record.document, WriteDocument(artifact));
  ASSERT_EQ(record.stages.size(), 2u);
  EXPECT_EQ(record.stages[1], (StageReference{"cubin", Digest::Of("binary"), 6}));
  EXPECT_EQ(record.compile_micros, 22u);
  EXPECT_EQ(record.created_unix_ms, 21);
  EXPECT_EQ(record.description, "");
  artifact.description.Set(std::make_unique<const std::string>("described"));
  EXPECT_EQ(MakeRecord(artifact).description, kDescriptionVersion + std::string("described"));
}

TEST(ArtifactDocument, WritesEvenWhatIsNotText) {
  Artifact artifact = MakeFullArtifact();
  artifact.provenance.host = "\xff";
  EXPECT_TRUE(ParseDocument(WriteDocument(artifact)).ok());
}

void ExpectDamaged(const Json& json) {
  const absl::Status status = ParseDocument(json.dump()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << json.dump() << ": " << status;
}

TEST(ArtifactDocument, RefusesWhatIsNoDocument) {
  for (const char* text : {"", "{", "null", "[]", "{}", "\xff", R"({"format": "1"})"}) {
    EXPECT_EQ(ParseDocument(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
  EXPECT_EQ(ParseDocument(std::string(100'000, '[')).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ParseDocument(std::string(limits::kRecordBytesMax + 1, ' ')).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ArtifactDocument, RefusesANewerFormat) {
  Json json = Json::parse(WriteDocument(MakeFullArtifact()));
  json["format"] = 2;
  EXPECT_EQ(ParseDocument(json.dump()).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Every field of every object, taken away, given another type, and joined by one more.
TEST(ArtifactDocument, RefusesAnyFieldThatIsMissingWrongOrExtra) {
  const Json whole = Json::parse(WriteDocument(MakeFullArtifact()));
  const std::vector<Json::json_pointer> objects = {
      Json::json_pointer(""),
      Json::json_pointer("/metadata"),
      Json::json_pointer("/provenance"),
      Json::json_pointer("/metadata/target"),
      Json::json_pointer("/timings/0"),
      Json::json_pointer("/metadata/tensor_descriptors/0"),
      Json::json_pointer("/metadata/parameters/1"),
  };
  int tried = 0;
  for (const Json::json_pointer& object : objects) {
    for (const auto& [name, value] : whole.at(object).items()) {
      Json missing = whole;
      missing.at(object).erase(name);
      ExpectDamaged(missing);
      Json wrong = whole;
      wrong.at(object)[name] = 1.5;
      ExpectDamaged(wrong);
      ++tried;
    }
    Json extra = whole;
    extra.at(object)["extra"] = 1;
    ExpectDamaged(extra);
  }
  EXPECT_GT(tried, 35);
}

TEST(ArtifactDocument, RefusesNumbersThatDoNotFit) {
  Json json = Json::parse(WriteDocument(MakeFullArtifact()));
  json["metadata"]["shared_bytes"] = std::numeric_limits<uint64_t>::max();
  ExpectDamaged(json);
  json = Json::parse(WriteDocument(MakeFullArtifact()));
  json["timings"][0]["micros"] = -1;
  ExpectDamaged(json);
}

}  // namespace
}  // namespace kiln
