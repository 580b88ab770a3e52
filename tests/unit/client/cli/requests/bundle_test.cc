#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <random>

#include "client/cli/requests/bundle_reader.h"
#include "client/cli/requests/bundle_writer.h"
#include "storage/base/limits.h"
#include "storage/bundle/zstd_frame.h"
#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

// `noise`: bytes that do not compress.
v1::BundleArtifact Artifact(const std::string& name, size_t bytes, size_t noise = 0) {
  v1::BundleArtifact artifact;
  artifact.set_options(name);
  v1::BundleStage& stage = *artifact.add_stages();
  stage.set_content(std::string(bytes, 'x'));
  std::mt19937 random;
  for (size_t i = 0; i < noise; ++i) stage.mutable_content()->at(i) = static_cast<char>(random());
  return artifact;
}

class BundleTest : public ::testing::Test {
 protected:
  std::unique_ptr<BundleWriter> Create() { return *BundleWriter::Create(path_, std::nullopt); }

  // All blocks together, and how many there were; or why it cannot be read.
  absl::StatusOr<v1::BundleBlock> Read(size_t* blocks = nullptr) {
    KILN_ASSIGN_OR_RETURN(BundleReader reader, BundleReader::Open(path_));
    v1::BundleBlock all;
    for (uint64_t number = 0;; ++number) {
      KILN_ASSIGN_OR_RETURN(const auto frame, reader.Next());
      if (!frame) return all;
      EXPECT_EQ(frame->number, number);
      v1::BundleBlock block;
      EXPECT_TRUE(
          block.ParseFromString(*DecompressFrame(frame->frame, limits::kBundleBlockBytesMax)));
      all.MergeFrom(block);
      if (blocks != nullptr) ++*blocks;
    }
  }

  TempDirectory directory_;
  const std::string path_ = directory_.File("x.bundle");
};

TEST_F(BundleTest, WhatIsWrittenIsReadInBlocksOfBoundedSize) {
  const auto writer = Create();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(*writer->Add(Artifact(std::to_string(i), limits::kMiB)));
  }
  EXPECT_TRUE(*writer->Add(Artifact("large", 20 * limits::kMiB)));
  EXPECT_TRUE(*writer->Add(Artifact("small", 1)));
  ASSERT_TRUE(writer->Finish().ok());
  size_t blocks = 0;
  const auto read = Read(&blocks);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->artifacts_size(), 12);
  EXPECT_EQ(read->artifacts(3).options(), "3");
  EXPECT_EQ(read->artifacts(11).options(), "small");
  EXPECT_EQ(read->end().artifacts(), 12u);
  EXPECT_EQ(blocks, 7u);  // four of three MiB, the large one, the small one, the end
}

TEST_F(BundleTest, ATooLargeArtifactIsLeftOutAndTheOthersStay) {
  const auto writer = Create();
  EXPECT_TRUE(*writer->Add(Artifact("before", 1)));
  EXPECT_FALSE(*writer->Add(Artifact("large", limits::kBundleBlockBytesMax)));
  EXPECT_FALSE(*writer->Add(Artifact("noise", 17 * limits::kMiB, 17 * limits::kMiB)));
  EXPECT_TRUE(*writer->Add(Artifact("after", 1)));
  ASSERT_TRUE(writer->Finish().ok());
  const auto read = Read();
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->artifacts_size(), 2);
  EXPECT_EQ(read->end().artifacts(), 2u);
}

TEST_F(BundleTest, AManifestOfAnySizeComesBack) {
  const std::string manifest(9 * limits::kMiB + 5, 'm');
  WriteFileOrDie(directory_.File("job.kiln"), manifest);
  const auto writer = Create();
  EXPECT_TRUE(*writer->Add(Artifact("one", 1)));
  ASSERT_TRUE(writer->AddManifest(directory_.File("job.kiln")).ok());
  ASSERT_TRUE(writer->Finish().ok());
  auto reader = *BundleReader::Open(path_);
  std::string read;
  while (const auto frame = *reader.Next()) {
    v1::BundleBlock block;
    ASSERT_TRUE(
        block.ParseFromString(*DecompressFrame(frame->frame, limits::kBundleBlockBytesMax)));
    read += block.manifest();
  }
  EXPECT_EQ(read, manifest);
}

TEST_F(BundleTest, CutOffAnywhereItIsNoWholeBundle) {
  const auto writer = Create();
  EXPECT_TRUE(*writer->Add(Artifact("one", 10)));
  ASSERT_TRUE(writer->Finish().ok());
  const std::string whole = ReadFileOrDie(path_);
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFileOrDie(path_, whole.substr(0, size));
    const auto read = Read();
    if (read.ok()) {
      EXPECT_FALSE(read->has_end()) << size;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(read.status())) << size << ": " << read.status();
    }
  }
}

TEST_F(BundleTest, AnUnfinishedFileIsGone) {
  { EXPECT_TRUE(*Create()->Add(Artifact("one", 10))); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_TRUE(
      absl::IsNotFound(BundleWriter::Create(directory_.File("none/x"), std::nullopt).status()));
}

}  // namespace
}  // namespace kiln::cli
