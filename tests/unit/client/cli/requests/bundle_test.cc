#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/requests/bundle_reader.h"
#include "client/cli/requests/bundle_writer.h"
#include "storage/base/limits.h"
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

TEST_F(BundleTest, AnUnfinishedFileIsGone) {
  { EXPECT_TRUE(Add(*Create(), {"one"}).ok()); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_TRUE(
      absl::IsNotFound(BundleWriter::Create(directory_.File("none/x"), std::nullopt).status()));
}

}  // namespace
}  // namespace kiln::cli
