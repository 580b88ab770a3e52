#include "daemon/toolchain/toolchain_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

class ToolchainCacheTest : public testing::Test {
 protected:
  ToolchainCache Open() { return {path_, OsFilesystem()}; }
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().string());
    return names;
  }

  const Digest listing_ = Digest::Of("listing");
  const Digest fingerprint_ = Digest::Of("fingerprint");
  const Digest script_ = Digest::Of("script");
  TempDirectory directory_;
  const std::string path_ = directory_.File("toolchains");
};

TEST_F(ToolchainCacheTest, RemembersAcrossRestarts) {
  {
    ToolchainCache cache = Open();
    EXPECT_EQ(cache.FindFingerprint(listing_), std::nullopt);
    EXPECT_EQ(cache.FindDescription(fingerprint_, script_), std::nullopt);
    cache.StoreFingerprint(listing_, fingerprint_);
    cache.StoreDescription(fingerprint_, script_, "{}");
  }
  ToolchainCache cache = Open();
  EXPECT_EQ(cache.FindFingerprint(listing_), fingerprint_);
  EXPECT_EQ(cache.FindDescription(fingerprint_, script_), "{}");
  EXPECT_EQ(cache.FindFingerprint(Digest::Of("another")), std::nullopt);
  EXPECT_EQ(cache.FindDescription(fingerprint_, Digest::Of("another")), std::nullopt);
  EXPECT_EQ(cache.FindDescription(Digest::Of("another"), script_), std::nullopt);
}

TEST_F(ToolchainCacheTest, LeavesNoTemporaryFiles) {
  ToolchainCache cache = Open();
  cache.StoreFingerprint(listing_, fingerprint_);
  cache.StoreFingerprint(listing_, fingerprint_);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(ToolchainCacheTest, IgnoresADamagedFingerprint) {
  for (const char* damage :
       {"", "abc", "not hex, not hex, not hex, not hex, not hex, not hex, not"}) {
    ToolchainCache cache = Open();
    cache.StoreFingerprint(listing_, fingerprint_);
    WriteFileOrDie(Files().front(), damage);
    EXPECT_EQ(cache.FindFingerprint(listing_), std::nullopt) << damage;
  }
}

TEST_F(ToolchainCacheTest, ALinkInPlaceOfAFileIsNotFollowed) {
  ToolchainCache cache = Open();
  cache.StoreFingerprint(listing_, fingerprint_);
  const std::string file = Files().front();
  fs::rename(file, directory_.File("elsewhere"));
  fs::create_symlink(directory_.File("elsewhere"), file);
  EXPECT_EQ(cache.FindFingerprint(listing_), std::nullopt);
}

TEST_F(ToolchainCacheTest, RemovesUnusedEntriesAndKeepsForeignFiles) {
  ToolchainCache earlier = Open();
  earlier.StoreFingerprint(listing_, fingerprint_);
  earlier.StoreFingerprint(Digest::Of("gone"), fingerprint_);
  WriteFileOrDie(path_ + "/x.fingerprint.123.tmp", "");
  WriteFileOrDie(path_ + "/notes.txt", "");
  ToolchainCache cache = Open();
  cache.FindFingerprint(listing_);
  cache.RemoveUnused();
  EXPECT_EQ(cache.FindFingerprint(listing_), fingerprint_);
  EXPECT_EQ(cache.FindFingerprint(Digest::Of("gone")), std::nullopt);
  EXPECT_TRUE(fs::exists(path_ + "/notes.txt"));
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(ToolchainCacheTest, ADirectoryThatOthersMayWriteToIsNotUsed) {
  fs::create_directory(path_);
  for (const fs::perms writable : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(path_, fs::perms::owner_all | writable);
    ToolchainCache cache = Open();
    cache.StoreFingerprint(listing_, fingerprint_);
    EXPECT_EQ(cache.FindFingerprint(listing_), std::nullopt);
    EXPECT_THAT(Files(), IsEmpty());
  }
}

TEST_F(ToolchainCacheTest, ALinkToADirectoryIsNotUsed) {
  fs::create_directory(directory_.File("real"));
  fs::create_directory_symlink(directory_.File("real"), path_);
  ToolchainCache cache = Open();
  cache.StoreFingerprint(listing_, fingerprint_);
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(ToolchainCacheTest, KeepsNothingWithoutADirectory) {
  for (const std::string& path : {std::string(), directory_.File("no/parent")}) {
    ToolchainCache cache(path, OsFilesystem());
    cache.StoreFingerprint(listing_, fingerprint_);
    cache.StoreDescription(fingerprint_, script_, "{}");
    EXPECT_EQ(cache.FindFingerprint(listing_), std::nullopt);
    EXPECT_EQ(cache.FindDescription(fingerprint_, script_), std::nullopt);
    cache.RemoveUnused();
  }
}

}  // namespace
}  // namespace kiln
