#include "client/cli/requests/manifest_origin.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

using ::testing::ElementsAre;

TEST(ManifestOriginTest, DevicesAreThoseOfTheDriversFiles) {
  const TempDirectory folder;
  WriteFileOrDie(folder.File("version"),
                 "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31\n"
                 "GCC version:  gcc version 12.2.0\n");
  for (const char* gpu : {"0000:01:00.0", "0000:02:00.0"}) {
    std::filesystem::create_directories(folder.File("gpus") + "/" + gpu);
    WriteFileOrDie(folder.File("gpus") + "/" + gpu + "/information",
                   "Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\n");
  }
  v1::ManifestOrigin origin;
  AddDevices(origin, folder.path());
  EXPECT_THAT(origin.devices(), ElementsAre("NVIDIA H200"));
  EXPECT_EQ(origin.versions().at("driver"), "550.90.07");
}

TEST(ManifestOriginTest, WithoutADriverThereAreNoDevices) {
  v1::ManifestOrigin origin;
  AddDevices(origin, "/no/such/folder");
  EXPECT_EQ(origin.ByteSizeLong(), 0u);
}

TEST(ManifestOriginTest, EachVersionOfAToolIsThereOnce) {
  v1::ManifestOrigin origin;
  for (const char* version : {"3.6.0", "3.6", "3.6.0", "3.6"})
    AddVersion("triton", version, origin);
  EXPECT_EQ(origin.versions().at("triton"), "3.6.0, 3.6");
}

}  // namespace
}  // namespace kiln::cli
