#include "client/cli/commands/toolchain_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SoughtFilesTest : public ::testing::Test {
 protected:
  // Returns its directory, which has a '*' in its name.
  std::string Put(const std::string& file) {
    const std::string directory = directory_.File("a *[b]");
    const fs::path path = fs::path(directory) / file;
    fs::create_directories(path.parent_path());
    WriteFileOrDie(path.string(), "x");
    return directory;
  }
  std::string WhyNot(const std::string& directory, const std::string& name) {
    const absl::Status status = CheckHolds(directory, name);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    return std::string(Message(status));
  }

  TempDirectory directory_;
};

TEST_F(SoughtFilesTest, OneOfThemIsEnough) {
  EXPECT_TRUE(CheckHolds(Put("bin/ptxas"), "ptxas").ok());
  EXPECT_TRUE(CheckHolds(Put("lib64/libnvrtc.so.12"), "nvrtc").ok());
  const std::string triton = Put("lib/python3.11/site-packages/triton/__init__.py");
  EXPECT_TRUE(CheckHolds(triton, "triton").ok());
  EXPECT_TRUE(CheckHolds(triton + "/.", "triton").ok());
}

TEST_F(SoughtFilesTest, WhereThereIsNoneItSaysWhatWasLookedForAndWhatToDo) {
  const auto says_all = AllOf(HasSubstr("lib64/libnvrtc.so.*, lib/python3*/site-packages/nvidia/"),
                              HasSubstr("Give that of a CUDA toolkit"),
                              HasSubstr("'kiln toolchain add nvrtc==12.9.86'"));
  const std::string empty = directory_.path();
  EXPECT_THAT(WhyNot(empty, "nvrtc"), AllOf(HasSubstr("there is no nvrtc in " + empty), says_all));
  const std::string missing = directory_.File("missing");
  EXPECT_THAT(WhyNot(missing, "nvrtc"), AllOf(HasSubstr(missing + " is not there"), says_all));
  const std::string file = Put("lib64/libnvrtc.so.12") + "/lib64/libnvrtc.so.12";
  EXPECT_THAT(WhyNot(file, "nvrtc"), AllOf(HasSubstr(file + " is no directory"), says_all));
  fs::remove(file);
  fs::create_symlink("nowhere", file);
  EXPECT_THAT(WhyNot(directory_.File("a *[b]"), "nvrtc"),
              AllOf(HasSubstr(file + " is no file, or a link that leads to none"), says_all));
}

TEST_F(SoughtFilesTest, APtxasAloneIsNotInstalled) {
  EXPECT_THAT(WhyNot(directory_.path(), "ptxas"),
              AllOf(HasSubstr("Triton, PyTorch or NVIDIA's wheels"),
                    ::testing::Not(HasSubstr("kiln toolchain add"))));
}

}  // namespace
}  // namespace kiln::cli
