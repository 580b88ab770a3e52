#include "daemon/toolchain/file_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <utility>

#include "tests/testing/fake_clock.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FileSnapshotTest : public testing::Test {
 protected:
  std::shared_ptr<const FileSnapshot> Take(const Clock& clock = SystemClock()) {
    const auto list = [this] {
      auto listing = ListFiles(toolchain_.AsFound(), {});
      if (listing.ok()) {
        for (ToolchainFile& file : listing->files) file.is_header = file.label == header_;
      }
      ++listings_;
      if (behind_a_listing_) std::exchange(behind_a_listing_, nullptr)();
      return listing;
    };
    auto seal = FileSnapshot::Take(list, clock);
    EXPECT_TRUE(seal.ok()) << seal.status();
    listings_ = 0;
    return *seal;
  }
  std::string File(const std::string& path) { return toolchain_.package() + "/" + path; }

  TempDirectory directory_;
  FakeToolchain toolchain_{directory_.File("t")};
  std::string header_ = "none";  // counts as a header of CUDA C++
  int listings_ = 0;
  std::function<void()> behind_a_listing_;  // is done once
};

TEST_F(FileSnapshotTest, HoldsWhileNothingIsDone) {
  const auto seal = Take();
  EXPECT_TRUE(seal->Check().ok());
  EXPECT_TRUE(seal->Check().ok());
  EXPECT_EQ(listings_, 0);
}

TEST_F(FileSnapshotTest, BreaksWhereAFileIsWrittenTo) {
  const auto seal = Take();
  toolchain_.Write("backends/nvidia/bin/ptxas", "Assembler");  // of the same size
  EXPECT_THAT(std::string(Message(seal->Check())), HasSubstr("backends/nvidia/bin/ptxas"));
}

TEST_F(FileSnapshotTest, BreaksWhereAFileIsReplacedAndItsTimeSetBack) {
  const auto seal = Take();
  const std::string path = File("knobs.py");
  const auto time = fs::last_write_time(path);
  WriteFileOrDie(path + ".new", "");
  fs::rename(path + ".new", path);
  fs::last_write_time(path, time);
  EXPECT_FALSE(seal->Check().ok());
}

// What a worker has read in between is not known.
TEST_F(FileSnapshotTest, BreaksWhereAFileIsChangedAndChangedBack) {
  const auto seal = Take();
  const std::string path = File("knobs.py");
  fs::rename(path, path + ".old");
  WriteFileOrDie(path, "other");
  fs::rename(path + ".old", path);
  EXPECT_EQ(ReadFileOrDie(path), "");
  EXPECT_FALSE(seal->Check().ok());
}

TEST_F(FileSnapshotTest, BreaksWhereAFileComesOrGoes) {
  const auto before = Take();
  toolchain_.Write("backends/nvidia/sitecustomize.py", "import os");
  EXPECT_THAT(std::string(Message(before->Check())), HasSubstr("sitecustomize.py is new or gone"));
  const auto after = Take();
  fs::remove(File("backends/nvidia/sitecustomize.py"));
  EXPECT_THAT(std::string(Message(after->Check())), HasSubstr("sitecustomize.py is gone"));
}

TEST_F(FileSnapshotTest, BreaksWhereAFileComesIntoAnEmptyDirectory) {
  fs::create_directories(File("plugins/empty"));
  const auto seal = Take();
  toolchain_.Write("plugins/empty/pass.so", "code");
  EXPECT_FALSE(seal->Check().ok());
}

TEST_F(FileSnapshotTest, BreaksWhereAFileComesIntoADirectoryThatCameLater) {
  const auto seal = Take();
  for (const char* directory : {"plugins", "plugins/inner"}) {
    fs::create_directory(File(directory));
    EXPECT_TRUE(seal->Check().ok()) << directory;
  }
  toolchain_.Write("plugins/inner/pass.so", "code");
  EXPECT_THAT(std::string(Message(seal->Check())), HasSubstr("plugins/inner/pass.so is new"));
}

// A tree that is being copied while its snapshot is taken.
TEST_F(FileSnapshotTest, BreaksWhereAFileComesIntoADirectoryThatCameWhileItWasTaken) {
  behind_a_listing_ = [this] { fs::create_directory(File("plugins")); };
  const auto seal = Take();
  EXPECT_TRUE(seal->Check().ok());
  toolchain_.Write("plugins/pass.so", "code");
  EXPECT_FALSE(seal->Check().ok());
}

// Two changes within the kernel's tick leave a directory the same time.
TEST_F(FileSnapshotTest, BreaksWhereAFileComesAtOnceBehindALookAtItsDirectory) {
  for (int i = 0; i < 20; ++i) {
    const auto seal = Take();
    const std::string directory = "plugins-" + std::to_string(i);
    fs::create_directory(File(directory));
    EXPECT_TRUE(seal->Check().ok());
    toolchain_.Write(directory + "/pass.so", "code");
    EXPECT_FALSE(seal->Check().ok()) << i;
  }
}

TEST_F(FileSnapshotTest, BreaksWhereALinkComesToLeadToFiles) {
  fs::create_directory_symlink(directory_.File("later"), File("plugins"));
  const auto seal = Take();
  EXPECT_TRUE(seal->Check().ok());
  fs::create_directory(directory_.File("later"));
  WriteFileOrDie(directory_.File("later/pass.so"), "code");
  EXPECT_FALSE(seal->Check().ok());
}

TEST_F(FileSnapshotTest, BytecodeAndEmptyDirectoriesAreLookedAtOnceAndHarmless) {
  FakeClock clock;
  clock.Advance(std::chrono::hours(24 * 365 * 100));  // long after all that is done here
  const auto seal = Take(clock);
  toolchain_.Write("__pycache__/knobs.cpython-311.pyc", "bytecode");
  fs::create_directory(File("plugins"));
  EXPECT_TRUE(seal->Check().ok());
  EXPECT_TRUE(seal->Check().ok());
  EXPECT_EQ(listings_, 1);
}

TEST_F(FileSnapshotTest, BreaksWhereTheInterpreterIsReplacedOrGone) {
  const auto before = Take();
  WriteProgram(toolchain_.interpreter(), "#!/bin/sh\nexit 1\n");
  EXPECT_THAT(std::string(Message(before->Check())), HasSubstr("bin/python is not as it was"));
  const auto after = Take();
  EXPECT_TRUE(after->Check().ok());
  fs::remove(toolchain_.interpreter());
  EXPECT_TRUE(absl::IsFailedPrecondition(after->Check()));
}

TEST_F(FileSnapshotTest, ComparesHeadersAtMostOnceASecond) {
  FakeClock clock;
  clock.Advance(std::chrono::hours(24 * 365 * 100));
  header_ = "knobs.py";
  const auto snapshot = Take(clock);
  WriteFileOrDie(File("knobs.py"), "another");
  EXPECT_TRUE(snapshot->Check().ok());
  clock.Advance(kHeaderLookTime);
  EXPECT_THAT(std::string(Message(snapshot->Check())), HasSubstr("knobs.py is not as it was"));
}

TEST_F(FileSnapshotTest, BreaksAtOnceWhereAHeaderIsReplacedByAnotherFile) {
  FakeClock clock;
  clock.Advance(std::chrono::hours(24 * 365 * 100));
  header_ = "knobs.py";
  const auto snapshot = Take(clock);
  WriteFileOrDie(File("other.py"), "another");
  fs::rename(File("other.py"), File("knobs.py"));
  EXPECT_FALSE(snapshot->Check().ok());
}

TEST_F(FileSnapshotTest, BreaksWhereAllIsGone) {
  const auto seal = Take();
  fs::rename(toolchain_.path(), directory_.File("elsewhere"));
  EXPECT_FALSE(seal->Check().ok());
}

}  // namespace
}  // namespace kiln
