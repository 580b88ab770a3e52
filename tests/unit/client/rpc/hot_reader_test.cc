#include "client/rpc/hot_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "storage/hot/artifact_file.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

class HotReaderTest : public ::testing::Test {
 protected:
  HotReaderTest() { ::mkdir(Path().c_str(), 0755); }

  std::string Path() const { return directory_.File("hot"); }
  std::string FileOf(const Digest& key) const {
    return Path() + "/" + key.Hex().substr(0, 2) + "/" + key.Hex();
  }
  void Publish(const Digest& key, const std::string& binary) {
    const std::vector<NamedBlob> stages = {{"cubin", Blob::FromBytes(binary)}};
    ::mkdir((Path() + "/" + key.Hex().substr(0, 2)).c_str(), 0755);
    WriteFileOrDie(FileOf(key), *EncodeArtifactFile(key, "{\"a\":1}", "1abc", stages));
  }

  TempDirectory directory_;
  const Digest key_ = Digest::Of("key");
};

TEST_F(HotReaderTest, FindsAPublishedArtifact) {
  Publish(key_, "the binary");
  const HotReader hot(Path(), std::nullopt);
  const auto found = hot.Find(key_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->binary(), "the binary");
  EXPECT_EQ(found->stage(), "cubin");
  EXPECT_EQ(found->document(), "{\"a\":1}");
  EXPECT_EQ(found->description(), "1abc");
}

TEST_F(HotReaderTest, FoundArtifactOutlivesItsFile) {
  Publish(key_, "the binary");
  absl::StatusOr<HotArtifact> found = NotFound("");
  {
    const HotReader hot(Path(), std::nullopt);
    found = hot.Find(key_);
  }
  ASSERT_TRUE(found.ok());
  ::unlink(FileOf(key_).c_str());
  const HotArtifact copy = *found;
  EXPECT_EQ(copy.binary(), "the binary");
}

TEST_F(HotReaderTest, UnpublishedKeyAndMissingDirectoryAreNotFound) {
  EXPECT_EQ(HotReader(Path(), std::nullopt).Find(key_).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(HotReader(Path() + "/none", std::nullopt).Find(key_).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(HotReaderTest, ADamagedFileIsDataLoss) {
  Publish(key_, "the binary");
  std::string bytes = ReadFileOrDie(FileOf(key_));
  bytes.back() ^= 1;
  WriteFileOrDie(FileOf(key_), bytes);
  EXPECT_EQ(HotReader(Path(), std::nullopt).Find(key_).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(HotReaderTest, AFileUnderAnotherKeyIsDataLoss) {
  Publish(key_, "the binary");
  const Digest other = Digest::Of("other");
  ::mkdir((Path() + "/" + other.Hex().substr(0, 2)).c_str(), 0755);
  WriteFileOrDie(FileOf(other), ReadFileOrDie(FileOf(key_)));
  EXPECT_EQ(HotReader(Path(), std::nullopt).Find(other).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(HotReaderTest, ADirectoryThatOthersMayWriteToIsRefused) {
  Publish(key_, "the binary");
  ASSERT_EQ(::chmod(Path().c_str(), 0777), 0);
  EXPECT_EQ(HotReader(Path(), std::nullopt).Find(key_).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(HotReaderTest, ADirectoryOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  Publish(key_, "the binary");
  ASSERT_EQ(::chown(Path().c_str(), 65534, 65534), 0);
  EXPECT_EQ(HotReader(Path(), std::nullopt).Find(key_).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(HotReader(Path(), 65534).Find(key_).ok());
}

TEST_F(HotReaderTest, ADirectoryThatANewDaemonMadeIsFound) {
  const HotReader hot(Path(), std::nullopt);
  EXPECT_EQ(hot.Find(key_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(::rename(Path().c_str(), directory_.File("old").c_str()), 0);
  EXPECT_EQ(hot.Find(key_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(::mkdir(Path().c_str(), 0755), 0);
  Publish(key_, "the binary");
  EXPECT_TRUE(hot.Find(key_).ok());
}

TEST_F(HotReaderTest, ALinkInPlaceOfTheDirectoryIsRefused) {
  Publish(key_, "the binary");
  ASSERT_EQ(::symlink(Path().c_str(), directory_.File("link").c_str()), 0);
  EXPECT_EQ(HotReader(directory_.File("link"), std::nullopt).Find(key_).status().code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace kiln
