#include "daemon/sandbox/file_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Pair;
using Kind = ViewEntry::Kind;

class FileViewTest : public testing::Test {
 protected:
  // What `view` has of this test's directory, relative to it, in order. Parents stand before what
  // lies in them.
  std::vector<std::pair<std::string, Kind>> Taken() {
    std::vector<std::pair<std::string, Kind>> taken;
    for (const ViewEntry& entry : view_.Take()) {
      const std::string relative = fs::path(entry.path).lexically_relative(root_).string();
      if (!relative.starts_with("..") && relative != ".") taken.emplace_back(relative, entry.kind);
    }
    return taken;
  }
  std::string At(const std::string& name) const { return (root_ / name).string(); }

  const TempDirectory directory_;
  const fs::path root_ = fs::canonical(directory_.path());
  FileView view_;
};

TEST_F(FileViewTest, ShowsAFileAndTheDirectoriesThatLeadToIt) {
  fs::create_directories(At("a/b"));
  WriteFileOrDie(At("a/b/file"), "");
  view_.Show(At("a/b/file"));
  EXPECT_THAT(Taken(), ElementsAre(Pair("a", Kind::kDirectory), Pair("a/b", Kind::kDirectory),
                                   Pair("a/b/file", Kind::kShownFile)));
}

TEST_F(FileViewTest, KeepsTheLinksOnTheWay) {
  fs::create_directories(At("versions/2"));
  fs::create_directory_symlink("versions/2", At("current"));
  fs::create_directory_symlink(At("current/../2"), At("absolute"));
  WriteFileOrDie(At("versions/2/tool"), "");
  view_.Show(At("absolute/tool"));
  EXPECT_THAT(Taken(),
              ElementsAre(Pair("absolute", Kind::kLink), Pair("current", Kind::kLink),
                          Pair("versions", Kind::kDirectory), Pair("versions/2", Kind::kDirectory),
                          Pair("versions/2/tool", Kind::kShownFile)));
}

TEST_F(FileViewTest, KeepsADirectoryThatALinkEntersAndLeaves) {
  fs::create_directories(At("entered"));
  WriteFileOrDie(At("tool"), "");
  fs::create_symlink("entered/../tool", At("link"));
  view_.Show(At("link"));
  EXPECT_THAT(Taken(), ElementsAre(Pair("link", Kind::kLink), Pair("entered", Kind::kDirectory),
                                   Pair("tool", Kind::kShownFile)));
}

TEST_F(FileViewTest, FollowsLinksThatLeadOutOfAShownDirectory) {
  fs::create_directories(At("shown"));
  WriteFileOrDie(At("other"), "");
  fs::create_symlink("../other", At("shown/link"));
  view_.Show(At("shown"));
  view_.Show(At("shown/link"));
  EXPECT_THAT(Taken(),
              ElementsAre(Pair("shown", Kind::kShownDirectory), Pair("other", Kind::kShownFile)));
}

TEST_F(FileViewTest, ShowsNothingTwice) {
  fs::create_directories(At("a/b"));
  for (const char* name : {"a", "a/b", "a"}) view_.Show(At(name));
  EXPECT_THAT(Taken(), ElementsAre(Pair("a", Kind::kShownDirectory)));
}

TEST_F(FileViewTest, ShowsADirectoryOfWhichAPartWasShownBefore) {
  fs::create_directories(At("a/b"));
  for (const char* name : {"a/b", "a"}) view_.Show(At(name));
  EXPECT_THAT(Taken(), ElementsAre(Pair("a", Kind::kDirectory), Pair("a/b", Kind::kShownDirectory),
                                   Pair("a", Kind::kShownDirectory)));
}

TEST_F(FileViewTest, PassesOverWhatIsNotThereAndWhatLeadsNowhere) {
  fs::create_symlink(At("loop"), At("loop"));
  for (const std::string& path : {At("missing"), At("loop"), std::string("/"), std::string()}) {
    view_.Show(path);
  }
  EXPECT_THAT(Taken(), ElementsAre(Pair("loop", Kind::kLink)));
}

TEST_F(FileViewTest, MakesAnEmptyDirectory) {
  fs::create_directories(At("work/slot-0"));
  view_.MakeDirectory(At("work/slot-0"));
  EXPECT_THAT(Taken(),
              ElementsAre(Pair("work", Kind::kDirectory), Pair("work/slot-0", Kind::kDirectory)));
}

}  // namespace
}  // namespace kiln
