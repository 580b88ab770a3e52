#include "storage/hot/artifact_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/testing/artifacts.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using absl::StatusCode;

const std::string kDocument = R"({"name": "add_kernel"})";
const std::string kDescription("1\0fields", 8);

std::string Encoded(const std::vector<NamedBlob>& stages) {
  const auto file = EncodeArtifactFile(MadeKey("k"), kDocument, kDescription, stages);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.value_or("");
}

std::string Encoded() {
  return Encoded({{"ptx", Blob::FromBytes("ptx text")}, {"cubin", Blob::FromBytes(Noise(1, 300))}});
}

StatusCode DecodeCode(std::string_view bytes) {
  ArtifactLayout layout;
  const ArtifactLayoutError error = ParseArtifactLayout(bytes, layout);
  if (error.is_newer) return StatusCode::kFailedPrecondition;
  return error.message.empty() ? StatusCode::kOk : StatusCode::kDataLoss;
}

ArtifactLayout Decode(std::string_view bytes) {
  ArtifactLayout layout;
  EXPECT_EQ(ParseArtifactLayout(bytes, layout).message, "");
  return layout;
}

class MappedArtifactTest : public testing::Test {
 protected:
  std::string Write(std::string_view content) {
    const std::string path = directory_.File("artifact");
    WriteFileOrDie(path, content);
    return path;
  }
  StatusCode OpenCode(const std::string& path) {
    return MappedArtifact::Open(path, MadeKey("k")).status().code();
  }
  TempDirectory directory_;
};

TEST(ArtifactFileTest, DecodesAnEncodedFile) {
  const std::string file = Encoded();
  const ArtifactLayout layout = Decode(file);
  EXPECT_EQ(layout.key, MadeKey("k").Bytes());
  EXPECT_EQ(layout.document, kDocument);
  EXPECT_EQ(layout.description, kDescription);
  ASSERT_EQ(layout.stages.size(), 2u);
  EXPECT_EQ(layout.stages[0].name, "ptx");
  EXPECT_EQ(layout.stages[0].bytes, "ptx text");
  EXPECT_EQ(layout.stages[0].digest, Digest::Of("ptx text").Bytes());
  EXPECT_EQ(layout.stages[1].name, "cubin");
  EXPECT_EQ(layout.stages[1].bytes, Noise(1, 300));
}

TEST(ArtifactFileTest, BinariesAreAligned) {
  const std::string file = Encoded();
  for (const ArtifactLayoutStage& stage : Decode(file).stages) {
    EXPECT_EQ((stage.bytes.data() - file.data()) % 64, 0);
  }
}

TEST(ArtifactFileTest, NoStagesAndNoDocumentAreFine) {
  const auto file = EncodeArtifactFile(MadeKey("k"), "", "", {});
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(Decode(*file).stages.empty());
}

TEST(ArtifactFileTest, AnEmptyBlobIsFine) {
  EXPECT_EQ(DecodeCode(Encoded({{"cubin", Blob()}})), StatusCode::kOk);
}

TEST(ArtifactFileTest, NamesAndStagesBeyondTheFormatAreRefused) {
  const std::vector<NamedBlob> long_name = {{std::string(32, 'n'), Blob()}};
  EXPECT_EQ(EncodeArtifactFile(MadeKey("k"), "", "", long_name).status().code(),
            StatusCode::kInvalidArgument);
  const std::vector<NamedBlob> no_name = {{"", Blob()}};
  EXPECT_EQ(EncodeArtifactFile(MadeKey("k"), "", "", no_name).status().code(),
            StatusCode::kInvalidArgument);
  const std::vector<NamedBlob> many(17, NamedBlob{"s", Blob()});
  EXPECT_EQ(EncodeArtifactFile(MadeKey("k"), "", "", many).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ArtifactFileTest, TruncatedAnywhereIsDataLoss) {
  const std::string file = Encoded();
  for (size_t size = 0; size < file.size(); ++size) {
    // Memory of exactly that size, so that a sanitizer sees a read past its end.
    const std::vector<char> truncated(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(DecodeCode({truncated.data(), truncated.size()}), StatusCode::kDataLoss) << size;
  }
}

TEST(ArtifactFileTest, AFlippedBitAnywhereIsNoticed) {
  const std::string file = Encoded();
  for (size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(DecodeCode(damaged), StatusCode::kOk) << at;
  }
}

TEST(ArtifactFileTest, BytesAfterTheEndAreDataLoss) {
  EXPECT_EQ(DecodeCode(Encoded() + "x"), StatusCode::kDataLoss);
}

TEST(ArtifactFileTest, ANewerVersionIsSaidToBeNewer) {
  std::string file = Encoded();
  file[8] = 2;
  EXPECT_EQ(DecodeCode(file), StatusCode::kFailedPrecondition);
}

TEST_F(MappedArtifactTest, OpensWhatWasWritten) {
  const auto mapped = MappedArtifact::Open(Write(Encoded()), MadeKey("k"));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->layout().document, kDocument);
  EXPECT_EQ(mapped->layout().stages.back().bytes, Noise(1, 300));
}

TEST_F(MappedArtifactTest, OpensFilesThatAreLargeEnoughToBeMapped) {
  const std::string large = Noise(2, size_t{3} << 20);
  const auto mapped =
      MappedArtifact::Open(Write(Encoded({{"cubin", Blob::FromBytes(large)}})), MadeKey("k"));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->layout().stages.back().bytes, large);
}

TEST_F(MappedArtifactTest, StaysReadableAfterTheFileIsGoneAndAfterAMove) {
  const std::string path = Write(Encoded());
  auto mapped = MappedArtifact::Open(path, MadeKey("k"));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_EQ(unlink(path.c_str()), 0);
  const MappedArtifact moved = *std::move(mapped);
  EXPECT_EQ(moved.layout().document, kDocument);
}

TEST_F(MappedArtifactTest, AbsentIsNotFound) {
  EXPECT_EQ(OpenCode(directory_.File("absent")), StatusCode::kNotFound);
}

TEST_F(MappedArtifactTest, AnotherKeysFileIsDataLoss) {
  const auto file = EncodeArtifactFile(MadeKey("other"), kDocument, "", {});
  EXPECT_EQ(OpenCode(Write(*file)), StatusCode::kDataLoss);
}

TEST_F(MappedArtifactTest, EmptyAndDamagedFilesAreDataLoss) {
  EXPECT_EQ(OpenCode(Write("")), StatusCode::kDataLoss);
  std::string damaged = Encoded();
  damaged.back() = static_cast<char>(~damaged.back());
  EXPECT_EQ(OpenCode(Write(damaged)), StatusCode::kDataLoss);
}

TEST_F(MappedArtifactTest, ASymbolicLinkIsNotFollowed) {
  const std::string link = directory_.File("link");
  ASSERT_EQ(symlink(Write(Encoded()).c_str(), link.c_str()), 0);
  EXPECT_EQ(OpenCode(link), StatusCode::kFailedPrecondition);
}

TEST_F(MappedArtifactTest, DirectoriesAndPipesAreRefusedWithoutHanging) {
  EXPECT_EQ(OpenCode(directory_.path()), StatusCode::kFailedPrecondition);
  const std::string pipe = directory_.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(OpenCode(pipe), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace kiln
