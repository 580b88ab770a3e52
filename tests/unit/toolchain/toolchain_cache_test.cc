#include "daemon/toolchain/toolchain_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "storage/base/limits.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
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

TEST_F(ToolchainCacheTest, KeepsTheYoungestTextsOfToolchainsThatAreGone) {
  const auto named = [](size_t i) {
    const std::string text = fmt::format("triton {}\n", i);
    return ToolchainFingerprint{Digest::Of(text), text};
  };
  const size_t count = limits::kToolchainTextsMax + 3;
  ToolchainCache earlier = Open();
  for (size_t i = 0; i < count; ++i) {
    earlier.StoreText(named(i));
    const fs::path file = path_ + "/" + named(i).digest.Hex() + ".files";
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(count - i));
  }
  ToolchainCache cache = Open();
  EXPECT_TRUE(cache.HasText(named(0).digest));
  cache.RemoveUnused();
  for (const size_t kept : {size_t{0}, size_t{3}, count - 1}) {
    EXPECT_TRUE(cache.HasText(named(kept).digest)) << kept;
  }
  for (const size_t old : {1, 2}) EXPECT_FALSE(cache.HasText(named(old).digest)) << old;
}

TEST_F(ToolchainCacheTest, ADamagedTextIsNone) {
  ToolchainCache cache = Open();
  cache.StoreText({Digest::Of("triton 1\n"), "triton 1\n"});
  WriteFileOrDie(Files().front(), "damaged");
  EXPECT_FALSE(cache.HasText(Digest::Of("triton 1\n")));
}

class CompareToolchainsTest : public ToolchainCacheTest {
 protected:
  Digest Store(const std::string& text) {
    Open().StoreText({Digest::Of(text), text});
    return Digest::Of(text);
  }
  std::vector<RequestDifference> Compare(const Digest& asked, const Digest& stored) {
    return CompareToolchains(path_, OsFilesystem(), asked, stored);
  }
  static std::string File(std::string_view content, std::string_view label) {
    return Digest::Of(content).Hex() + fmt::format("  {}\n", label);
  }
  static std::string Short(std::string_view content) {
    return Digest::Of(content).Hex().substr(0, 12);
  }
};

TEST_F(CompareToolchainsTest, NamesEachFileThatDiffers) {
  const std::string same = File("same", "knobs.py");
  const Digest asked = Store("python 3.11\n" + File("a", "a b.py") + File("new", "n.py") + same);
  const Digest stored = Store("python 3.12\n" + File("b", "a b.py") + same + File("old", "o.py"));
  EXPECT_THAT(Compare(asked, stored),
              ElementsAre(RequestDifference{"toolchain's python", "3.11", "3.12"},
                          RequestDifference{"toolchain's file a b.py", Short("a"), Short("b")},
                          RequestDifference{"toolchain's file n.py", Short("new"), "none"},
                          RequestDifference{"toolchain's file o.py", "none", Short("old")}));
  EXPECT_THAT(Compare(asked, asked), IsEmpty());
}

TEST_F(CompareToolchainsTest, CountsTheFilesThatItDoesNotName) {
  std::string asked, stored;
  for (size_t i = 0; i < limits::kToolchainDifferencesMax + 2; ++i) {
    asked += File("asked", fmt::format("{}.h", i));
    stored += File("stored", fmt::format("{}.h", i));
  }
  const auto found = Compare(Store(asked), Store(stored));
  ASSERT_EQ(found.size(), limits::kToolchainDifferencesMax + 1);
  EXPECT_EQ(found.back().asked, "2 more that differ");
}

TEST_F(CompareToolchainsTest, SaysNothingOfATextThatIsNotThere) {
  const Digest stored = Store("python 3.11\n");
  EXPECT_THAT(Compare(Digest::Of("another"), stored), IsEmpty());
  EXPECT_THAT(Compare(stored, Digest::Of("another")), IsEmpty());
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
