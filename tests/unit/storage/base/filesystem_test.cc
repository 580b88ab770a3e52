#include "storage/base/filesystem.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using absl::StatusCode;

class FilesystemTest : public testing::Test {
 protected:
  Filesystem& files_ = OsFilesystem();
  TempDirectory directory_;
};

TEST_F(FilesystemTest, FreeBytesOfARealDirectory) {
  const auto free = files_.FreeBytes(directory_.path());
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_GT(*free, 0u);
  EXPECT_EQ(files_.FreeBytes(directory_.File("absent")).status().code(), StatusCode::kNotFound);
}

TEST_F(FilesystemTest, WritesReadsRenamesRemoves) {
  const std::string path = directory_.File("a");
  ASSERT_TRUE(files_.WriteNew(path, "content", 0444).ok());
  EXPECT_EQ(files_.WriteNew(path, "again", 0444).code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(files_.Rename(path, directory_.File("b")).ok());
  EXPECT_EQ(*files_.Read(directory_.File("b"), 100), "content");
  EXPECT_EQ(files_.Read(directory_.File("b"), 3).status().code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(files_.Remove(directory_.File("b")).ok());
  EXPECT_EQ(files_.Read(directory_.File("b"), 100).status().code(), StatusCode::kNotFound);
}

TEST_F(FilesystemTest, TheLimitOfReadingHoldsAtTheLimitAndOneBeyond) {
  for (const size_t size : {0, 1, 4095, 4096, 4097, 8192, 100'000}) {
    const std::string path = directory_.File(std::to_string(size));
    WriteFileOrDie(path, std::string(size, 'x'));
    EXPECT_EQ(files_.Read(path, size)->size(), size);
    EXPECT_EQ(files_.Read(path, uint64_t{1} << 40)->size(), size);
    if (size == 0) continue;
    EXPECT_TRUE(absl::IsResourceExhausted(files_.Read(path, size - 1).status()));
  }
}

// They say that they have no bytes.
TEST_F(FilesystemTest, ReadsKernelFilesOfUnknownSize) {
  EXPECT_NE(files_.Read("/proc/self/maps", uint64_t{1} << 20)->find("[stack]"), std::string::npos);
  EXPECT_TRUE(absl::IsResourceExhausted(files_.Read("/proc/self/maps", 10).status()));
}

TEST_F(FilesystemTest, MakingADirectoryTwiceIsFineButNotOverAFile) {
  ASSERT_TRUE(files_.MakeDirectory(directory_.File("d"), 0700).ok());
  EXPECT_TRUE(files_.MakeDirectory(directory_.File("d"), 0700).ok());
  WriteFileOrDie(directory_.File("f"), "");
  EXPECT_EQ(files_.MakeDirectory(directory_.File("f"), 0700).code(), StatusCode::kAlreadyExists);
}

TEST_F(FilesystemTest, ListTellsFilesDirectoriesAndLinksApart) {
  WriteFileOrDie(directory_.File("f"), "12345");
  ASSERT_TRUE(files_.MakeDirectory(directory_.File("d"), 0700).ok());
  ASSERT_EQ(symlink("f", directory_.File("l").c_str()), 0);
  const auto entries = files_.List(directory_.path());
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 3u);
  for (const DirectoryEntry& entry : *entries) {
    if (entry.name == "f") {
      EXPECT_EQ(entry.size_bytes, 5u);
    }
    const auto expected = entry.name == "f"   ? DirectoryEntry::Kind::kFile
                          : entry.name == "d" ? DirectoryEntry::Kind::kDirectory
                                              : DirectoryEntry::Kind::kOther;
    EXPECT_EQ(entry.kind, expected) << entry.name;
  }
}

TEST_F(FilesystemTest, NeverWritesOrReadsThroughALink) {
  ASSERT_EQ(symlink("target", directory_.File("l").c_str()), 0);
  EXPECT_EQ(files_.WriteNew(directory_.File("l"), "x", 0600).code(), StatusCode::kAlreadyExists);
  EXPECT_FALSE(files_.Read(directory_.File("l"), 100).ok());
}

}  // namespace
}  // namespace kiln
