#include "daemon/process/loaded_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::Each;
using testing::EndsWith;
using testing::StartsWith;

TEST(LoadedLibrariesTest, ThoseOfAProgramAndItsLoaderByTheirPaths) {
  const auto libraries = LibrariesOf("/bin/true");
  ASSERT_TRUE(libraries.ok()) << libraries.status();
  EXPECT_THAT(*libraries, Each(StartsWith("/")));
  EXPECT_THAT(*libraries, Contains(EndsWith("/libc.so.6")));
  EXPECT_THAT(*libraries, Contains(LoaderOf("/bin/true")));
}

TEST(LoadedLibrariesTest, AScriptHasNone) {
  const TempDirectory directory;
  WriteFileOrDie(directory.File("script"), "#!/bin/sh\n");
  EXPECT_EQ(LoaderOf(directory.File("script")), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(LibrariesOf(directory.File("script")).status()));
}

}  // namespace
}  // namespace kiln
