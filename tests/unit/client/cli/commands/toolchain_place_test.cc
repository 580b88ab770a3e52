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

}  // namespace
}  // namespace kiln::cli
