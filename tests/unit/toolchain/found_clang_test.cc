#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "daemon/toolchain/found_toolchain.h"
#include "daemon/toolchain/toolchain_files.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

// A clang as Debian installs it: a link in bin, and the headers beside what it leads to.
class FoundClangTest : public testing::Test {
 protected:
  FoundClangTest() {
    InstallProgram("llvm/bin/clang");
    InstallProgram("bin/llvm-spirv-15");
    InstallProgram("bin/spirv-val");
    fs::create_symlink("../llvm/bin/clang", directory_.File("bin/clang-15"));
    fs::create_directories(directory_.File("llvm/lib/clang/15.0.6/include"));
    fs::create_directories(directory_.File("llvm/lib/clang/15/lib"));
    WriteFileOrDie(directory_.File("llvm/lib/clang/15.0.6/include/opencl-c-base.h"), "");
  }

  void InstallProgram(const std::string& path) {
    const fs::path full = directory_.File(path);
    fs::create_directories(full.parent_path());
    fs::copy_file("/bin/true", full);
  }
  std::vector<FoundToolchain> Find() const {
    return FindToolchains({directory_.path()}, FileTrust());
  }
  std::string Problem() const {
    const auto found = Find();
    return found.size() == 1 ? std::string(Message(found[0].problem)) : "not one toolchain";
  }

  const TempDirectory directory_;
};

TEST_F(FoundClangTest, IsFoundWithTheProgramsBesideItItsLibrariesAndItsHeaders) {
  const auto found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].problem.ok()) << found[0].problem;
  EXPECT_EQ(found[0].name, "clang");
  EXPECT_EQ(found[0].path, directory_.File("bin/clang-15"));
  EXPECT_THAT(found[0].libraries, Contains(directory_.File("bin/llvm-spirv-15")));
  EXPECT_THAT(found[0].libraries, Contains(directory_.File("bin/spirv-val")));
  EXPECT_THAT(found[0].libraries, Contains(EndsWith("/libc.so.6")));
  EXPECT_THAT(found[0].libraries, Contains(HasSubstr("/ld-linux")));
  EXPECT_THAT(found[0].includes, ElementsAre(directory_.File("llvm/lib/clang/15.0.6/include")));
}

TEST_F(FoundClangTest, WithoutATranslatorItIsSomebodyElses) {
  fs::remove(directory_.File("bin/llvm-spirv-15"));
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(FoundClangTest, WithoutAValidatorItIsNotUsed) {
  fs::remove(directory_.File("bin/spirv-val"));
  EXPECT_THAT(Problem(), HasSubstr("spirv-val is not there"));
}

TEST_F(FoundClangTest, WithoutHeadersItIsNotUsed) {
  fs::remove(directory_.File("llvm/lib/clang/15.0.6/include/opencl-c-base.h"));
  EXPECT_THAT(Problem(), HasSubstr("opencl-c-base.h"));
}

TEST_F(FoundClangTest, AProgramThatOthersMayWriteToIsNotUsed) {
  fs::permissions(directory_.File("bin/spirv-val"), fs::perms(0777));
  EXPECT_THAT(Problem(), HasSubstr("spirv-val"));
}

TEST_F(FoundClangTest, EachProgramLibraryAndHeaderIsInTheFingerprint) {
  const auto listing = ListFiles(Find().at(0), {});
  ASSERT_TRUE(listing.ok()) << listing.status();
  std::vector<std::string> labels;
  for (const ToolchainFile& file : listing->files) labels.push_back(file.label);
  for (const char* each :
       {"clang-15", "llvm-spirv-15", "spirv-val", "libc.so.6", "include-0/opencl-c-base.h"}) {
    EXPECT_THAT(labels, Contains(each));
  }
}

}  // namespace
}  // namespace kiln
