// What HotFiles leaves on the disk, and what it makes of what it finds there.
#include "storage/hot/hot_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "storage/hot/artifact_file.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Encoded(const MadeArtifact& made) {
  const NamedBlob stages[] = {{"cubin", made.blobs[1]}};
  return *EncodeArtifactFile(made.record.key, made.record.document, stages);
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class HotFilesTest : public testing::Test {
 protected:
  HotFiles Open() {
    auto files = HotFiles::Open(directory_);
    EXPECT_TRUE(files.ok()) << files.status();
    return *std::move(files);
  }
  std::string PathOf(const Digest& key) const {
    return fmt::format("{}/{}/{}", directory_, key.Hex().substr(0, 2), key.Hex());
  }
  MadeArtifact PublishOne(std::string_view name) {
    HotFiles files = Open();
    MadeArtifact made = MakeArtifact(name);
    auto file = files.Write(Encoded(made));
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(files.Publish(*std::move(file), made.record.key).ok());
    return made;
  }
  void SetAge(const std::string& path, int64_t unix_seconds) {
    const struct timespec times[2] = {{unix_seconds, 0}, {unix_seconds, 5}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  std::vector<Digest> LoadedKeys() {
    const auto loaded = Open().Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    std::vector<Digest> keys;
    for (const HotFile& file : *loaded) keys.push_back(file.key);
    return keys;
  }
  std::vector<std::string> EntriesOf(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  const TempDirectory temp_;
  const std::string directory_ = temp_.File("hot");
};

TEST_F(HotFilesTest, OthersMayReadAndNobodyMayWriteWhateverTheUmaskIs) {
  const mode_t before = umask(0077);
  const MadeArtifact made = PublishOne("add");
  umask(before);
  EXPECT_EQ(ModeOf(directory_), 0755u);
  EXPECT_EQ(ModeOf(fs::path(PathOf(made.record.key)).parent_path()), 0755u);
  EXPECT_EQ(ModeOf(PathOf(made.record.key)), 0444u);
}

TEST_F(HotFilesTest, AWritableDirectoryIsClosedToOthers) {
  fs::create_directory(directory_);
  fs::permissions(directory_, fs::perms::all);
  Open();
  EXPECT_EQ(ModeOf(directory_), 0755u);
}

TEST_F(HotFilesTest, ALinkInThePlaceOfTheDirectoryIsRefused) {
  fs::create_directory(temp_.File("elsewhere"));
  fs::create_directory_symlink(temp_.File("elsewhere"), directory_);
  const auto files = HotFiles::Open(directory_);
  EXPECT_EQ(files.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(files.status().message()), HasSubstr("remove it"));
}

TEST_F(HotFilesTest, AFileInThePlaceOfTheDirectoryIsRefused) {
  WriteFileOrDie(directory_, "mine");
  EXPECT_EQ(HotFiles::Open(directory_).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFileOrDie(directory_), "mine");
}

TEST_F(HotFilesTest, AMissingParentIsNotFound) {
  EXPECT_EQ(HotFiles::Open(temp_.File("no/hot")).status().code(), StatusCode::kNotFound);
}

TEST_F(HotFilesTest, UnpublishedFileIsRemoved) {
  HotFiles files = Open();
  {
    const auto file = files.Write("half an artifact");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ(EntriesOf(directory_).size(), 1u);
    EXPECT_THAT(EntriesOf(directory_)[0], testing::StartsWith(".tmp-"));
  }
  EXPECT_THAT(EntriesOf(directory_), IsEmpty());
}

TEST_F(HotFilesTest, PublishedFilesComeBackOldestFirst) {
  const MadeArtifact one = PublishOne("one");
  const MadeArtifact two = PublishOne("two");
  const MadeArtifact three = PublishOne("three");
  SetAge(PathOf(one.record.key), 1'700'000'200);
  SetAge(PathOf(two.record.key), 1'700'000'300);
  SetAge(PathOf(three.record.key), 1'700'000'100);
  EXPECT_THAT(LoadedKeys(), ElementsAre(three.record.key, one.record.key, two.record.key));
}

TEST_F(HotFilesTest, LoadedFileNamesKeyBinaryAndSize) {
  const MadeArtifact made = PublishOne("add");
  const auto loaded = Open().Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), 1u);
  EXPECT_EQ(loaded->at(0).binary, made.blobs[1].digest());
  EXPECT_EQ(loaded->at(0).size_bytes, Encoded(made).size());
}

TEST_F(HotFilesTest, UnfinishedAndForeignFilesAreRemovedOnLoad) {
  const MadeArtifact made = PublishOne("add");
  WriteFileOrDie(directory_ + "/.tmp-0123456789abcdef", "half");
  WriteFileOrDie(directory_ + "/README", "hello");
  fs::create_directory(directory_ + "/empty");
  fs::create_directory(directory_ + "/AB");
  EXPECT_THAT(LoadedKeys(), ElementsAre(made.record.key));
  EXPECT_THAT(EntriesOf(directory_), ElementsAre(made.record.key.Hex().substr(0, 2)));
}

TEST_F(HotFilesTest, DamagedFilesAreRemovedOnLoad) {
  const std::string path = PathOf(PublishOne("add").record.key);
  std::string content = ReadFileOrDie(path);
  content.back() = static_cast<char>(content.back() ^ 1);
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  WriteFileOrDie(path, content);
  fs::permissions(path, fs::perms::owner_write, fs::perm_options::remove);
  EXPECT_THAT(LoadedKeys(), IsEmpty());
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(HotFilesTest, TruncatedAndEmptyFilesAreRemovedOnLoad) {
  const std::string cut = PathOf(PublishOne("cut").record.key);
  const std::string empty = PathOf(PublishOne("empty").record.key);
  ASSERT_EQ(truncate(cut.c_str(), 100), 0);
  ASSERT_EQ(truncate(empty.c_str(), 0), 0);
  EXPECT_THAT(LoadedKeys(), IsEmpty());
  EXPECT_FALSE(fs::exists(cut));
  EXPECT_FALSE(fs::exists(empty));
}

TEST_F(HotFilesTest, AFileUnderAnotherKeyIsRemovedOnLoad) {
  const std::string path = PathOf(PublishOne("add").record.key);
  const std::string other = PathOf(MadeKey("other"));
  fs::create_directory(fs::path(other).parent_path());
  fs::rename(path, other);
  EXPECT_THAT(LoadedKeys(), IsEmpty());
  EXPECT_FALSE(fs::exists(other));
}

TEST_F(HotFilesTest, AFileInTheWrongShardOrUppercaseIsRemovedOnLoad) {
  const Digest key = PublishOne("add").record.key;
  const std::string wrong = key.Hex().substr(0, 2) == "00" ? "01" : "00";
  fs::create_directory(directory_ + "/" + wrong);
  fs::copy_file(PathOf(key), directory_ + "/" + wrong + "/" + key.Hex());
  std::string upper = key.Hex();
  for (char& c : upper) c = static_cast<char>(toupper(c));
  ASSERT_NE(upper, key.Hex());
  fs::copy_file(PathOf(key), directory_ + "/" + key.Hex().substr(0, 2) + "/" + upper);
  EXPECT_THAT(LoadedKeys(), ElementsAre(key));
  EXPECT_THAT(EntriesOf(directory_ + "/" + wrong), IsEmpty());
}

TEST_F(HotFilesTest, AFileThatSomebodyMadeWritableIsRemovedOnLoad) {
  const std::string path = PathOf(PublishOne("add").record.key);
  fs::permissions(path, fs::perms::all);
  EXPECT_THAT(LoadedKeys(), IsEmpty());
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(HotFilesTest, LinksAreRemovedOnLoadAndTheirTargetsLeftAlone) {
  const Digest key = PublishOne("add").record.key;
  const std::string target = temp_.File("target");
  fs::rename(PathOf(key), target);
  fs::create_symlink(target, PathOf(key));
  fs::create_directory(temp_.File("elsewhere"));
  WriteFileOrDie(temp_.File("elsewhere/precious"), "data");
  const std::string shard = directory_ + (key.Hex().substr(0, 2) == "00" ? "/01" : "/00");
  fs::create_directory_symlink(temp_.File("elsewhere"), shard);

  EXPECT_THAT(LoadedKeys(), IsEmpty());
  EXPECT_FALSE(fs::is_symlink(PathOf(key)));
  EXPECT_FALSE(fs::is_symlink(shard));
  EXPECT_TRUE(fs::exists(target));
  EXPECT_EQ(ReadFileOrDie(temp_.File("elsewhere/precious")), "data");
}

TEST_F(HotFilesTest, NothingIsPublishedOrRemovedThroughALinkedShard) {
  HotFiles files = Open();
  const MadeArtifact made = MakeArtifact("add");
  const std::string name = made.record.key.Hex();
  fs::create_directory(temp_.File("elsewhere"));
  WriteFileOrDie(temp_.File("elsewhere/" + name), "precious");
  fs::create_directory_symlink(temp_.File("elsewhere"), directory_ + "/" + name.substr(0, 2));

  auto file = files.Write(Encoded(made));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(files.Publish(*std::move(file), made.record.key).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(files.Remove(made.record.key).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFileOrDie(temp_.File("elsewhere/" + name)), "precious");
}

TEST_F(HotFilesTest, PublishingReplacesALinkAndNotItsTarget) {
  HotFiles files = Open();
  const MadeArtifact made = MakeArtifact("add");
  const std::string path = PathOf(made.record.key);
  WriteFileOrDie(temp_.File("precious"), "data");
  fs::create_directory(fs::path(path).parent_path());
  fs::create_symlink(temp_.File("precious"), path);
  auto file = files.Write(Encoded(made));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(files.Publish(*std::move(file), made.record.key).ok());
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_EQ(ReadFileOrDie(temp_.File("precious")), "data");
}

TEST_F(HotFilesTest, RemovingWhatIsNotThereIsFine) {
  HotFiles files = Open();
  EXPECT_TRUE(files.Remove(MadeKey("never")).ok());
  const Digest key = PublishOne("add").record.key;
  EXPECT_TRUE(files.Remove(key).ok());
  EXPECT_TRUE(files.Remove(key).ok());
}

TEST_F(HotFilesTest, ADirectoryTreeThatIsNotOursIsLeftAlone) {
  Open();
  fs::create_directories(directory_ + "/photos/summer");
  EXPECT_THAT(LoadedKeys(), IsEmpty());
  EXPECT_TRUE(fs::exists(directory_ + "/photos/summer"));
}

}  // namespace
}  // namespace kiln
