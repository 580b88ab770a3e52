#include "client/cli/commands/toolchain_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ToolchainPlaceTest : public ::testing::Test {
 protected:
  std::string MakeDirectory(const std::string& name) {
    fs::create_directories(directory_.File(name));
    return directory_.File(name);
  }

  TempDirectory directory_;
};

TEST_F(ToolchainPlaceTest, NamesAreNamesAndNoPaths) {
  const auto both = ParseToolchainName("triton==3.6.0+rocm7");
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->name, "triton");
  EXPECT_EQ(both->version, "3.6.0+rocm7");
  EXPECT_EQ(ParseToolchainName("nvrtc")->version, "");
  for (const char* text : {"", "==", "triton==", "==1", "../x==1", "a/b==1", "a==../../etc",
                           "a b==1", "a==1;rm", ".hidden==1", "a==.", "a==1\n", "-a==--into=/"}) {
    const auto parsed = ParseToolchainName(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST_F(ToolchainPlaceTest, TheFirstThatMayBeWrittenToIsChosen) {
  const std::string missing = directory_.File("missing");
  const std::string there = MakeDirectory("there");
  EXPECT_EQ(*ChoosePlace({missing, there}), there);
  EXPECT_EQ(*ChoosePlace({"/usr/lib/kiln/toolchains", missing}), missing);
  const auto none = ChoosePlace({"/usr/lib/kiln/toolchains", "/usr/local/cuda"});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("/usr/local/cuda"));
}

TEST_F(ToolchainPlaceTest, ALinkIsMadeOnceAndNothingIsReplaced) {
  const std::string toolkit = MakeDirectory("cuda-12.9");
  const std::string place = directory_.File("new/toolchains");
  bool is_new = false;
  const auto link = LinkToolchain(place, "nvrtc", toolkit + "/", is_new);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_TRUE(is_new);
  EXPECT_EQ(*link, place + "/nvrtc-cuda-12.9");
  EXPECT_EQ(fs::canonical(*link), fs::canonical(toolkit));
  EXPECT_TRUE(LinkToolchain(place, "nvrtc", toolkit, is_new).ok());
  EXPECT_FALSE(is_new);
  const std::string other = MakeDirectory("elsewhere/cuda-12.9");
  EXPECT_EQ(LinkToolchain(place, "nvrtc", other, is_new).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(LinkToolchain(place, "nvrtc", directory_.File("missing"), is_new).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ToolchainPlaceTest, ANameThatIsPassedOverIsNotLinked) {
  for (const char* name : {"cuda.tmp", "cuda.partial-1"}) {
    bool is_new = false;
    const auto link = LinkToolchain(directory_.File("place"), "ptxas", MakeDirectory(name), is_new);
    EXPECT_EQ(link.status().code(), absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(std::string(link.status().message()), HasSubstr("not finished: rename it"));
  }
  EXPECT_FALSE(fs::exists(directory_.File("place")));
}

TEST_F(ToolchainPlaceTest, ALinkDoesNotSayItsNameTwice) {
  bool is_new = false;
  const auto link = LinkToolchain(directory_.File("place"), "nvrtc",
                                  MakeDirectory("elsewhere/nvrtc-12.9.86"), is_new);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(*link, directory_.File("place/nvrtc-12.9.86"));
}

TEST_F(ToolchainPlaceTest, OfALinkOnlyTheLinkGoes) {
  const std::string toolkit = MakeDirectory("cuda");
  const std::string place = MakeDirectory("place");
  WriteFileOrDie(toolkit + "/precious", "x");
  bool is_new = false;
  const auto link = LinkToolchain(place, "ptxas", toolkit, is_new);
  EXPECT_EQ(*SetToolchainAside(place, *link), "");
  EXPECT_TRUE(DeleteToolchain("").ok());
  EXPECT_FALSE(fs::exists(fs::symlink_status(*link)));
  EXPECT_TRUE(fs::exists(toolkit + "/precious"));
}

TEST_F(ToolchainPlaceTest, ADirectoryGoesOutOfSightAndThenForGood) {
  const std::string place = MakeDirectory("place");
  const std::string outside = MakeDirectory("outside");
  WriteFileOrDie(outside + "/precious", "x");
  const std::string installed = MakeDirectory("place/triton-3.6.0");
  fs::create_directory_symlink(outside, installed + "/link");
  const auto aside = SetToolchainAside(place, installed);
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_FALSE(fs::exists(installed));
  EXPECT_EQ(fs::path(*aside).filename().string()[0], '.');  // such are never taken for a toolchain
  EXPECT_TRUE(DeleteToolchain(*aside).ok());
  EXPECT_TRUE(fs::is_empty(place));
  EXPECT_TRUE(fs::exists(outside + "/precious"));
}

TEST_F(ToolchainPlaceTest, NothingOutsideIsTouched) {
  const std::string place = MakeDirectory("place");
  const std::string outside = MakeDirectory("outside");
  MakeDirectory("place/inner/deep");
  fs::create_directory_symlink(outside, place + "/link");
  MakeDirectory("outside/victim");
  for (const std::string& installation :
       {outside, place, place + "/", place + "/..", place + "/../outside", place + "/.",
        place + "/inner/deep", place + "/link/victim", std::string("/"), std::string("")}) {
    EXPECT_EQ(SetToolchainAside(place, installation).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << installation;
  }
  EXPECT_TRUE(fs::exists(outside + "/victim"));
  EXPECT_TRUE(fs::exists(place + "/inner/deep"));
}

}  // namespace
}  // namespace kiln::cli
