// A hot directory of its own for each test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/hot/artifact_file.h"
#include "storage/hot/hot_directory.h"
#include "storage/user_cache_record.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_filesystem.h"
#include "tests/testing/temp_directory.h"

namespace kiln {

class HotDirectoryFixture : public testing::Test {
 protected:
  HotDirectoryFixture() { Reopen(); }

  void Reopen() {
    hot_.reset();
    auto opened = HotDirectory::Open(path_, options_, filesystem_, clock_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    hot_ = *std::move(opened);
  }
  HotDirectory& hot() { return *hot_; }

  MadeArtifact PutOne(std::string_view name, size_t size_bytes = 1000) {
    MadeArtifact made = MakeArtifact(name, size_bytes);
    hot().OnPut(made.record, made.blobs);
    return made;
  }
  std::string PathOf(const Digest& key) const {
    return fmt::format("{}/{}/{}", path_, key.Hex().substr(0, 2), key.Hex());
  }
  bool IsThere(const MadeArtifact& made) const {
    return std::filesystem::exists(PathOf(made.record.key));
  }
  void ExpectPublished(const MadeArtifact& made) {
    const auto mapped = MappedArtifact::Open(PathOf(made.record.key), made.record.key);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_EQ(mapped->layout().document, made.record.document);
    ASSERT_EQ(mapped->layout().stages.size(), 1u);
    EXPECT_EQ(mapped->layout().stages[0].name, made.record.stages.back().stage);
    EXPECT_EQ(mapped->layout().stages[0].bytes, made.blobs.back().bytes());
  }
  // An entry of a user's own namespace.
  static MadeArtifact MakeOwn(uid_t uid) {
    MadeArtifact own = MakeArtifact("own");
    own.record.key = UserCacheKey(uid, "key");
    own.record.document = EncodeUserCacheRecord({uid, "key", {}});
    own.record.stages = {own.record.stages.back()};
    return own;
  }
  // What the directory says of itself is what is on the disk.
  void ExpectBooksBalance() {
    uint64_t files = 0;
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (!entry.is_regular_file()) continue;
      files += entry.path().extension() != ".stages";
      bytes += entry.file_size();
    }
    EXPECT_EQ(hot().Stats().files, files);
    EXPECT_EQ(hot().Stats().bytes, bytes);
  }

  FakeClock clock_;
  FakeFilesystem filesystem_;
  const TempDirectory temp_;
  const std::string path_ = temp_.File("hot");
  HotDirectoryOptions options_;

 private:
  std::unique_ptr<HotDirectory> hot_;
};

}  // namespace kiln
