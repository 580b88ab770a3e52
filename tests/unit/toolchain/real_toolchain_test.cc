// The toolchain that deploy/install-toolchain made, as the daemon finds it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "daemon/toolchain/discovered_toolchains.h"
#include "storage/base/filesystem.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

std::string ToolchainsDirectory() {
  const char* given = std::getenv("KILN_TEST_TOOLCHAINS");
  return given == nullptr ? KILN_DEFAULT_TOOLCHAINS : given;
}

class RealToolchainTest : public testing::Test {
 protected:
  std::unique_ptr<DiscoveredToolchains> Discover(const char* what) {
    DiscoveryOptions options;
    options.search_path = {ToolchainsDirectory()};
    options.cache_directory = directory_.File("toolchains");
    options.work_directory = directory_.path();
    options.worker_script = KILN_WORKER_SCRIPT;
    const auto start = std::chrono::steady_clock::now();
    auto catalog = DiscoveredToolchains::Discover(options, OsFilesystem());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::printf("discovery, %s: %.1f ms for %s\n", what, took.count(), catalog->Describe().c_str());
    return catalog;
  }

  TempDirectory directory_;
};

TEST_F(RealToolchainTest, CompilesForTheSixTargetsAndIsTheSameWhenRemembered) {
  const auto cold = Discover("cold");
  ASSERT_FALSE(cold->List().empty())
      << "no toolchain in " << ToolchainsDirectory() << ": run deploy/install-toolchain, or say "
      << "in KILN_TEST_TOOLCHAINS where one is";
  for (const char* text :
       {"cuda:80", "cuda:90", "cuda:100", "hip:gfx90a", "hip:gfx942", "hip:gfx950"}) {
    const auto target = Target::Parse(text);
    ASSERT_TRUE(target.ok());
    const auto found = cold->Find("triton==3.6.0", SourceKind::kTtir, *target);
    EXPECT_TRUE(found.ok()) << text << ": " << found.status();
  }
  const auto toolchain = cold->List().front();
  EXPECT_THAT(toolchain->assembler, HasSubstr("ptxas"));
  ASSERT_NE(toolchain->FindBackend("cuda"), nullptr);
  EXPECT_EQ(toolchain->FindBackend("cuda")->stages.back(), "cubin");
  ASSERT_NE(toolchain->FindBackend("hip"), nullptr);
  EXPECT_EQ(toolchain->FindBackend("hip")->stages.back(), "hsaco");
  EXPECT_EQ(toolchain->FindBackend("cuda")->options.count("num_warps"), 1u);

  const auto warm = Discover("remembered");
  ASSERT_EQ(warm->List().size(), cold->List().size());
  EXPECT_EQ(warm->List().front()->fingerprint, toolchain->fingerprint);
  EXPECT_EQ(warm->List().front()->Name(), toolchain->Name());
}

}  // namespace
}  // namespace kiln
