#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "daemon/toolchain/found_toolchain.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FoundNativeTest : public testing::Test {
 protected:
  // The canonical path of a new program.
  std::string Install(const std::string& path) {
    const fs::path full = directory_.File(path);
    fs::create_directories(full.parent_path());
    WriteFileOrDie(full, path);
    fs::permissions(full, fs::perms(0755));
    return fs::canonical(full);
  }
  static std::string Problem(const FoundToolchain& found) {
    return std::string(Message(found.problem));
  }
  std::vector<std::string> Find(const std::string& directory = "") {
    std::vector<std::string> paths;
    for (const auto& each : FindToolchains({directory_.File(directory)}, FileTrust())) {
      EXPECT_EQ(each.name, "ptxas");
      EXPECT_TRUE(each.problem.ok()) << each.path;
      paths.push_back(each.path);
    }
    return paths;
  }

  const TempDirectory directory_;
};

TEST_F(FoundNativeTest, FindsProgramsInToolkitsAndPythonEnvironments) {
  const std::string packages = "c/lib/python3.11/site-packages/";
  const std::vector<std::string> installed = {
      Install("a-cuda/bin/ptxas"),
      Install("b-torch/lib/python3.12/site-packages/torch/bin/ptxas"),
      Install(packages + "triton/backends/nvidia/bin/ptxas"),
      Install(packages + "triton/backends/nvidia/bin/ptxas-blackwell"),
      Install(packages + "nvidia/cuda_nvcc/bin/ptxas"),
  };
  Install("d/ptxas");
  Install(".hidden/bin/ptxas");
  EXPECT_EQ(Find(), installed);
}

TEST_F(FoundNativeTest, ADirectoryMayBeTheToolkitItself) {
  const std::string ptxas = Install("cuda/bin/ptxas");
  EXPECT_THAT(Find("cuda"), ElementsAre(ptxas));
}

TEST_F(FoundNativeTest, FindsProgramsBeneathAToolkit) {
  const std::string ptxas = Install("bin/ptxas");
  const std::string beneath = Install("x/lib/python3.12/site-packages/torch/bin/ptxas");
  EXPECT_THAT(Find(), ElementsAre(ptxas, beneath));
}

TEST_F(FoundNativeTest, TwoPathsToOneFileCountOnce) {
  const std::string ptxas = Install("cuda-13.0/bin/ptxas");
  fs::create_directory_symlink("cuda-13.0", directory_.File("cuda"));
  EXPECT_THAT(Find(), ElementsAre(ptxas));
}

TEST_F(FoundNativeTest, AnNvrtcWithWhatLiesBesideIt) {
  const std::string library = Install("cuda/lib64/libnvrtc.so.13.0.88");
  const std::string builtins = Install("cuda/lib64/libnvrtc-builtins.so.13.0");
  Install("cuda/lib64/libnvrtc.alt.so.13");
  Install("cuda/lib64/libnvrtc-builtins.alt.so.13.0");
  Install("cuda/include/cuda_fp16.h");
  fs::create_symlink("libnvrtc.so.13.0.88", directory_.File("cuda/lib64/libnvrtc.so.13"));
  fs::create_symlink("libnvrtc.so.13", directory_.File("cuda/lib64/libnvrtc.so"));
  const auto found = FindToolchains({directory_.path()}, FileTrust());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "nvrtc");
  EXPECT_EQ(found[0].path, library);
  EXPECT_TRUE(found[0].problem.ok());
  EXPECT_THAT(found[0].libraries, ElementsAre(builtins));
  EXPECT_THAT(found[0].includes,
              ElementsAre(fs::canonical(directory_.File("cuda/include")).string()));
}

TEST_F(FoundNativeTest, NvrtcsOfWheels) {
  const std::string packages = "x/lib/python3.11/site-packages/nvidia/";
  const std::string twelve = Install(packages + "cuda_nvrtc/lib/libnvrtc.so.12");
  Install(packages + "cuda_runtime/include/cuda.h");
  Install(packages + "cuda_nvcc/include/crt/mma.h");
  const std::string thirteen = Install(packages + "cu13/lib/libnvrtc.so.13");
  const auto found = FindToolchains({directory_.path()}, FileTrust());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, twelve);
  EXPECT_THAT(found[0].includes,
              ElementsAre(HasSubstr("/cuda_runtime/include"), HasSubstr("/cuda_nvcc/include")));
  EXPECT_EQ(found[1].path, thirteen);
  EXPECT_THAT(found[1].includes, IsEmpty());
}

TEST_F(FoundNativeTest, FindsNothingInAMissingDirectory) {
  EXPECT_THAT(Find("missing"), IsEmpty());
  fs::create_directories(directory_.File("x/bin/ptxas"));
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(FoundNativeTest, DoesNotRunAProgramWritableByOthers) {
  const fs::path ptxas = Install("cuda/bin/ptxas");
  const auto problem = [&] {
    return Problem(FindToolchains({directory_.path()}, FileTrust()).at(0));
  };
  fs::permissions(ptxas, fs::perms(0757));
  EXPECT_THAT(problem(), HasSubstr("chmod o-w"));
  fs::permissions(ptxas, fs::perms(0755));
  fs::permissions(ptxas.parent_path(), fs::perms(0777));
  EXPECT_THAT(problem(), HasSubstr("chmod o-w"));
  fs::permissions(ptxas.parent_path(), fs::perms(0755));
  fs::permissions(ptxas, fs::perms(0644));
  EXPECT_THAT(problem(), HasSubstr("executable"));
}

TEST_F(FoundNativeTest, AProgramThatATrustedDirectoryLeadsToCounts) {
  Install("real/cuda/bin/ptxas");
  Install("real/cuda/lib64/libnvrtc.so.13.0.88");
  for (const char* name : {"open", "trusted"}) {
    fs::create_directories(directory_.File(name));
    fs::create_directory_symlink("../real/cuda", fmt::format("{}/cuda", directory_.File(name)));
  }
  fs::permissions(directory_.File("open"), fs::perms(0777));
  const std::vector<std::string> search = {directory_.File("open"), directory_.File("trusted")};
  const auto all = FindToolchains(search, FileTrust());
  EXPECT_EQ(all.size(), 2u);
  for (const FoundToolchain& each : all) {
    EXPECT_EQ(Problem(each), "") << each.name;
    EXPECT_EQ(each.installation, directory_.File("trusted/cuda"));
  }
}

TEST_F(FoundNativeTest, AnNvrtcThatOthersMayChangeIsNotUsed) {
  Install("search/cuda/real/lib/libnvrtc.so.13.0.88");
  Install("search/cuda/real/lib/libnvrtc-builtins.so.13.0");
  Install("search/cuda/include/cuda_fp16.h");
  fs::create_directory_symlink("real/lib", directory_.File("search/cuda/lib64"));
  const auto problem = [&] {
    return Problem(FindToolchains({directory_.File("search")}, FileTrust()).at(0));
  };
  EXPECT_EQ(problem(), "");
  for (const char* path :
       {"search", "search/cuda", "search/cuda/real", "search/cuda/real/lib",
        "search/cuda/real/lib/libnvrtc.so.13.0.88",
        "search/cuda/real/lib/libnvrtc-builtins.so.13.0", "search/cuda/include"}) {
    const fs::perms before = fs::status(directory_.File(path)).permissions();
    fs::permissions(directory_.File(path), fs::perms(0777));
    EXPECT_THAT(problem(), HasSubstr("mode 0777")) << path;
    fs::permissions(directory_.File(path), before);
  }
}

}  // namespace
}  // namespace kiln
