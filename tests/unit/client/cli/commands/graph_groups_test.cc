// `kiln graph` with sections that become one kernel.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "client/cli/output/json.h"
#include "tests/unit/client/cli/commands/graph_command_fixture.h"

namespace kiln::cli::graph_command_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSoftmaxes[] = R"({"kiln_segment": 1, "name": "softmaxes",
 "values": [{"name": "x", "type": "f32", "shape": [64, 64], "role": "input"},
            {"name": "h", "type": "f32", "shape": [64, 64]},
            {"name": "y", "type": "f32", "shape": [64, 64], "role": "output"}],
 "operations": [{"op": "Softmax", "inputs": ["x"], "outputs": ["h"]},
                {"op": "Softmax", "inputs": ["h"], "outputs": ["y"]}]})";

class GraphGroupsTest : public GraphCommandTest {
 protected:
  GraphGroupsTest() {
    AddToolchain(v1::SOURCE_KIND_CUDA_CXX, "cuda", "90");
    AddToolchain(v1::SOURCE_KIND_TTIR, "cuda", "90");
  }
  // The steps of steps.json.
  Json Compiled() {
    const std::string folder = files_.File("out");
    EXPECT_EQ(Run({"compile", Write(kSoftmaxes), "--target", "cuda:90", "--barriers", "always",
                   "-o", folder}),
              0)
        << err_.str();
    return (*ParseJson(ReadFileOrDie(folder + "/steps.json")))["targets"][0]["steps"];
  }
};

TEST_F(GraphGroupsTest, AGroupIsOneStepWithStages) {
  Refuse(v1::SOURCE_KIND_UNSPECIFIED);
  const Json steps = Compiled();
  EXPECT_THAT(kinds_, ElementsAre(v1::SOURCE_KIND_CUDA_CXX));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["type"], "group");
  EXPECT_EQ(steps[0]["operations"], Json({0, 1}));
  const Json& kernel = steps[0]["kernels"][0];
  EXPECT_EQ(kernel["entry"], "kiln_2_stages");
  EXPECT_EQ(kernel["stages"].size(), 2u);
  EXPECT_EQ(kernel["buffers"], Json({"x", "h", "y"}));
}

TEST_F(GraphGroupsTest, WhereTheGroupDoesNotCompileItsSectionsDo) {
  Refuse(v1::SOURCE_KIND_CUDA_CXX);
  const Json steps = Compiled();
  EXPECT_THAT(kinds_,
              ElementsAre(v1::SOURCE_KIND_CUDA_CXX, v1::SOURCE_KIND_TTIR, v1::SOURCE_KIND_TTIR));
  EXPECT_THAT(err_.str(),
              HasSubstr("kiln: 0-kiln_2_stages: it failed, a kernel for each section is next\n"));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0]["kernels"][0]["name"], "1-kiln_softmax");
  EXPECT_EQ(steps[1]["kernels"][0]["name"], "2-kiln_softmax");
}

TEST_F(GraphGroupsTest, ExplainTellsWhyAndTheFlagDecides) {
  const auto explain = [&](const std::string& barriers) {
    out_.str("");
    EXPECT_EQ(Run({"explain", Write(kSoftmaxes), "--target", "cuda:90", "--barriers", barriers}), 0)
        << err_.str();
    return out_.str();
  };
  EXPECT_THAT(explain("always"), HasSubstr("one kernel: sections 0, 1: it is forced"));
  EXPECT_THAT(explain("score"), ::testing::Not(HasSubstr("sections 0, 1")));
  EXPECT_THAT(explain("never"), ::testing::Not(HasSubstr("sections 0, 1")));
  EXPECT_NE(Run({"explain", Write(kSoftmaxes), "--barriers", "sometimes"}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("--barriers: 'sometimes' is none of score, always, never"));
}

}  // namespace
}  // namespace kiln::cli::graph_command_test
