#include "client/cli/commands/request_source.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

TEST(OpenRequestsTest, AToolchainTakesThePlaceOfThoseOfItsKinds) {
  const TempDirectory directory;
  const std::string path = directory.File("lines.jsonl");
  std::ofstream(path)
      << R"({"kind": "ttir", "source": "x", "target": "cuda:90", "toolchain": "triton==3.6.0"}
{"kind": "ptx", "source": "x", "target": "cuda:90", "toolchain": "ptxas==12.9.86"}
{"kind": "ptx", "source": "x", "target": "cuda:90"}
)";
  const auto toolchains_for = [&](const std::string& toolchain) {
    RequestTemplate shape;
    shape.request.set_toolchain(toolchain);
    const auto source = OpenRequests({path}, shape, Shard());
    EXPECT_TRUE(source.ok()) << source.status();
    std::vector<std::string> found;
    while (auto named = (*source)()) {
      EXPECT_TRUE(named->request.ok()) << named->request.status();
      found.push_back(named->request->toolchain());
    }
    return found;
  };
  using Names = std::vector<std::string>;
  const std::string fingerprint(64, 'a');
  EXPECT_EQ(toolchains_for("triton==3.7.1"), Names({"triton==3.7.1", "ptxas==12.9.86", ""}));
  EXPECT_EQ(toolchains_for("ptxas"), Names({"triton==3.6.0", "ptxas", "ptxas"}));
  EXPECT_EQ(toolchains_for(fingerprint), Names({fingerprint, fingerprint, fingerprint}));
}

}  // namespace
}  // namespace kiln::cli
