#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/requests/bundle_reader.h"
#include "client/cli/requests/bundle_writer.h"
#include "storage/base/limits.h"
#include "storage/bundle/bundle_format.h"
#include "storage/bundle/signature.h"
#include "storage/bundle/zstd_frame.h"
#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

v1::BundleBlock BlockOf(const std::vector<std::string>& names) {
  v1::BundleBlock block;
  for (const std::string& name : names) block.add_artifacts()->set_options(name);
  return block;
}

class BundleTest : public ::testing::Test {
 protected:
  std::unique_ptr<BundleWriter> Create() { return *BundleWriter::Create(path_, std::nullopt); }
  static absl::Status Add(BundleWriter& writer, const std::vector<std::string>& names) {
    return writer.Add(*CompressFrame(BlockOf(names).SerializeAsString()), names.size());
  }

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

TEST_F(BundleTest, BlocksAreReadAsTheyWereWritten) {
  const auto writer = Create();
  EXPECT_TRUE(Add(*writer, {"0", "1"}).ok());
  EXPECT_TRUE(Add(*writer, {"2"}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  size_t blocks = 0;
  const auto read = Read(&blocks);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->artifacts_size(), 3);
  EXPECT_EQ(read->artifacts(2).options(), "2");
  EXPECT_EQ(read->end().artifacts(), 3u);
  EXPECT_EQ(blocks, 3u);  // and the end
}

TEST_F(BundleTest, AManifestOfAnySizeComesBack) {
  const std::string manifest(9 * limits::kMiB + 5, 'm');
  WriteFileOrDie(directory_.File("job.kiln"), manifest);
  const auto writer = Create();
  EXPECT_TRUE(Add(*writer, {"one"}).ok());
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
  EXPECT_TRUE(Add(*writer, {"one"}).ok());
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

// A file that an earlier version wrote. Another number of a field or another frame makes other
// blocks. The id is random, and with it the signatures. With KILN_WRITE_VECTORS this test writes
// it.
TEST_F(BundleTest, TheSampleIsReadAndItsBlocksAreWrittenByteForByte) {
  const std::string vectors = KILN_SOURCE_DIR "/tests/vectors/";
  constexpr unsigned kZstdOfTheSample = 10504;  // another may compress otherwise
  // As docs/bundle.md has them.
  WriteFileOrDie(directory_.File("private.pem"),
                 "-----BEGIN PRIVATE KEY-----\n"
                 "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                 "-----END PRIVATE KEY-----\n");
  WriteFileOrDie(directory_.File("public.pem"),
                 "-----BEGIN PUBLIC KEY-----\n"
                 "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
                 "-----END PUBLIC KEY-----\n");
  v1::BundleBlock artifacts;
  v1::BundleArtifact& artifact = *artifacts.add_artifacts();
  artifact.set_key(std::string(32, 'k'));
  artifact.set_document("the document");
  artifact.add_stages()->set_stage("request");
  artifact.mutable_stages(0)->set_content("the request");
  artifact.add_stages()->set_stage("cubin");
  artifact.mutable_stages(1)->set_content("the binary");
  artifact.set_compile_micros(81'000);
  artifact.set_created_unix_ms(1'704'067'200'000);
  artifact.set_options("num_warps=8");

  const auto writer =
      *BundleWriter::Create(path_, *SigningKey::Read(directory_.File("private.pem")));
  ASSERT_TRUE(writer->Add(*CompressFrame(artifacts.SerializeAsString()), 1).ok());
  ASSERT_TRUE(writer->AddManifest(vectors + "manifest.kiln").ok());
  ASSERT_TRUE(writer->Finish().ok());

  const TrustedKeys keys = *TrustedKeys::Read(directory_.File("public.pem"));
  if (std::getenv("KILN_WRITE_VECTORS") != nullptr) {
    WriteFileOrDie(vectors + "artifacts.bundle", ReadFileOrDie(path_));
  }
  auto sample = BundleReader::Open(vectors + "artifacts.bundle");
  ASSERT_TRUE(sample.ok()) << sample.status();
  auto written = *BundleReader::Open(path_);
  v1::BundleBlock all;
  while (const auto frame = *sample->Next()) {
    EXPECT_TRUE(
        keys.HaveSigned(SignedBytes(sample->id(), frame->number, frame->frame), frame->signature));
    const auto now = *written.Next();
    ASSERT_TRUE(now.has_value());
    if (ZSTD_versionNumber() == kZstdOfTheSample) {
      EXPECT_TRUE(now->frame == frame->frame);
    }
    v1::BundleBlock block;
    ASSERT_TRUE(
        block.ParseFromString(*DecompressFrame(frame->frame, limits::kBundleBlockBytesMax)));
    all.MergeFrom(block);
  }
  EXPECT_FALSE((*written.Next()).has_value());
  EXPECT_TRUE(all.manifest() == ReadFileOrDie(vectors + "manifest.kiln"));
  EXPECT_EQ(all.end().artifacts(), 1u);
  ASSERT_EQ(all.artifacts_size(), 1);
  EXPECT_EQ(all.artifacts(0).SerializeAsString(), artifact.SerializeAsString());
}

TEST_F(BundleTest, AnUnfinishedFileIsGone) {
  { EXPECT_TRUE(Add(*Create(), {"one"}).ok()); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_TRUE(
      absl::IsNotFound(BundleWriter::Create(directory_.File("none/x"), std::nullopt).status()));
}

}  // namespace
}  // namespace kiln::cli
