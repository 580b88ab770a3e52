#include "daemon/sandbox/jail_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(JailNeedsTest, AProgramIsStartedWithItsLoader) {
  const JailNeeds needs = NeedsOfThisProcess({"/bin/sh"});
  EXPECT_THAT(needs.programs, Contains("/bin/sh"));
  EXPECT_THAT(needs.programs, Contains(HasSubstr("/ld-")));
}

TEST(JailNeedsTest, AScriptNeedsNoLoader) {
  const TempDirectory directory;
  WriteFileOrDie(directory.File("script"), "#!/bin/sh\n");
  const JailNeeds needs = NeedsOfThisProcess({directory.File("script")});
  EXPECT_THAT(needs.programs, ElementsAre(directory.File("script")));
}

TEST(JailNeedsTest, LibrariesOfTheSystemStandForTheirDirectory) {
  const JailNeeds needs = NeedsOfThisProcess({});
  for (const std::string& library : needs.libraries) {
    EXPECT_TRUE(std::filesystem::exists(library)) << library;
    EXPECT_THAT(library, Not(HasSubstr(".so"))) << "of the system's, every one";
  }
  // This program itself lies elsewhere, so it stands for itself.
  EXPECT_THAT(needs.libraries, Contains(std::filesystem::read_symlink("/proc/self/exe").string()));
}

}  // namespace
}  // namespace kiln
