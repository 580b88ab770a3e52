#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/command_line.h"
#include "client/cli/output/console.h"
#include "client/cli/output/json.h"
#include "client/graph/compile/planned_kernels.h"
#include "client/graph/onnx/onnx_reader.h"
#include "tests/testing/graph/onnx_maker.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/client/cli/commands/graph_command_fixture.h"

namespace kiln::cli::graph_command_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(GraphCommandTest, ExplainsSectionsWithoutATarget) {
  daemon_.Stop();
  EXPECT_EQ(Run({"explain", Segment()}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("layer: 4 operations, 2 sections, 0 left to the engine\n"));
  EXPECT_THAT(out_.str(), HasSubstr("fused: MatMul (0) into Relu (1): "));
}

TEST_F(GraphCommandTest, ExplainsTheCompilerOfEachKernel) {
  EXPECT_EQ(Run({"explain", Segment(), "--target", "cuda:90", "--target", "spirv:1.2"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("section 0: kernel kiln_relu_2 by triton: "));
  EXPECT_THAT(out_.str(), HasSubstr("section 1: kernel kiln_abs_2 by ptx: no loop"));
  EXPECT_THAT(out_.str(), HasSubstr("section 1: kernel kiln_abs_2 by opencl: "));
  EXPECT_EQ(Run({"explain", Segment(), "--target", "cuda:90", "--compiler", "cuda"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("section 1: kernel kiln_abs_2 by cuda: it is forced\n"));
}

TEST_F(GraphCommandTest, OptionsOfAPlanAreInItsKey) {
  std::set<std::string> keys;
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {}, {"--views"}, {"--no-splits"}, {"--views", "--no-splits"}}) {
    std::vector<std::string> arguments = {"explain", Segment(), "--target", "cuda:90", "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    EXPECT_EQ(Run(arguments), 0) << err_.str();
    keys.insert((*ParseJson(out_.str()))["targets"][0]["key"]);
  }
  EXPECT_EQ(keys.size(), 4u);
}

TEST_F(GraphCommandTest, ExplainsAsJson) {
  EXPECT_EQ(Run({"explain", Segment(), "--target", "cuda:90", "--off", "matmul", "--json"}), 0);
  const Json json = *ParseJson(out_.str());
  EXPECT_EQ(json["segment"], "layer");
  const Json& target = json["targets"][0];
  EXPECT_EQ(target["key"].get<std::string>().size(), 64u);
  EXPECT_EQ(target["symbols"], Json({"batch"}));
  ASSERT_EQ(target["steps"].size(), 3u);
  EXPECT_EQ(
      target["steps"][0],
      Json({{"operation", 0}, {"op", "MatMul"}, {"reason", "matmul sections are switched off"}}));
  const Json& kernel = target["steps"][2]["kernels"][0];
  EXPECT_EQ(kernel["name"], "0-kiln_abs_2");
  EXPECT_EQ(kernel["compiler"], "ptx");
  EXPECT_EQ(kernel["buffers"], Json({"n", "z"}));
  ASSERT_EQ(kernel["grid"].size(), 1u);
  EXPECT_EQ(kernel["grid"][0]["extent"], "16777216");
  EXPECT_EQ(kernel["grid"][0]["tile"].get<int>() % kernel["threads"].get<int>(), 0);
}

TEST_F(GraphCommandTest, CompilesAllKernelsAsOneBatch) {
  for (const auto kind : {v1::SOURCE_KIND_PTX, v1::SOURCE_KIND_TTIR}) {
    AddToolchain(kind, "cuda", "90");
  }
  const std::string folder = files_.File("out");
  EXPECT_EQ(Run({"compile", Segment(), "--target", "cuda:90", "-o", folder}), 0) << err_.str();
  EXPECT_EQ(daemon_.kernels().streams, 1);
  EXPECT_THAT(out_.str(), HasSubstr("0-kiln_relu_2\tcuda:90\tcompiled\t"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/0-kiln_relu_2.cubin"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/1-kiln_abs_2.json"));
  const Json steps = *ParseJson(ReadFileOrDie(folder + "/steps.json"));
  EXPECT_EQ(steps["targets"][0]["steps"][1]["kernels"][0]["name"], "1-kiln_abs_2");
  EXPECT_EQ(steps["targets"][0]["absent"], Json({"cuda"}));
  EXPECT_THAT(err_.str(), HasSubstr("kiln: cuda:90: no toolchain of the daemon compiles cuda: "
                                    "kernels are written for ptx, triton\n"));
}

TEST_F(GraphCommandTest, WithoutAToolchainForTheBestTheNextCompilerIsTaken) {
  AddToolchain(v1::SOURCE_KIND_CUDA_CXX, "cuda", "90");
  Refuse(v1::SOURCE_KIND_UNSPECIFIED);
  EXPECT_EQ(Run({"compile", Segment(), "--target", "cuda:90"}), 0) << err_.str();
  EXPECT_THAT(kinds_, ElementsAre(v1::SOURCE_KIND_CUDA_CXX, v1::SOURCE_KIND_CUDA_CXX));
  EXPECT_THAT(err_.str(), HasSubstr("no toolchain of the daemon compiles ptx, triton: "));
}

TEST_F(GraphCommandTest, AfterAFailureTheNextCompilerIsAsked) {
  for (const auto kind : {v1::SOURCE_KIND_PTX, v1::SOURCE_KIND_TTIR, v1::SOURCE_KIND_CUDA_CXX}) {
    AddToolchain(kind, "cuda", "90");
  }
  Refuse(v1::SOURCE_KIND_TTIR);
  const std::string folder = files_.File("out");
  EXPECT_EQ(Run({"compile", Segment(), "--target", "cuda:90", "-o", folder}), 0) << err_.str();
  EXPECT_THAT(kinds_,
              ElementsAre(v1::SOURCE_KIND_TTIR, v1::SOURCE_KIND_PTX, v1::SOURCE_KIND_CUDA_CXX));
  EXPECT_THAT(err_.str(), HasSubstr("kiln: 0-kiln_relu_2: triton failed, cuda is next\n"));
  const Json steps = *ParseJson(ReadFileOrDie(folder + "/steps.json"));
  const Json& kernel = steps["targets"][0]["steps"][0]["kernels"][0];
  EXPECT_EQ(kernel["compiler"], "cuda");
  EXPECT_THAT(kernel["why"].get<std::string>(), HasSubstr("triton: the compile failed"));
}

TEST_F(GraphCommandTest, WhatNoCompilerCompilesIsTheEngines) {
  AddToolchain(v1::SOURCE_KIND_TTIR, "cuda", "90");
  Refuse(v1::SOURCE_KIND_TTIR);
  const std::string folder = files_.File("out");
  EXPECT_EQ(Run({"compile", Segment(), "--target", "cuda:90", "-o", folder}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("kiln: 0-kiln_relu_2: triton failed and no compiler is left: "
                                    "its section is the engine's\n"));
  const Json steps = *ParseJson(ReadFileOrDie(folder + "/steps.json"));
  EXPECT_EQ(steps["targets"][0]["steps"][0]["op"], "MatMul");
  EXPECT_EQ(steps["targets"][0]["steps"][0]["reason"], "triton: the compile failed");
}

TEST_F(GraphCommandTest, AManifestNeedsNoDaemonAndIsReplayed) {
  const std::string manifest = files_.File("layer.kiln");
  daemon_.Stop();
  EXPECT_EQ(
      Run({"manifest", Segment(), "--target", "cuda:90", "--target", "hip:gfx942", "-o", manifest}),
      0)
      << err_.str();
  EXPECT_EQ(err_.str(), "4 requests in " + manifest + "\n");
  daemon_.Start();
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunCommandLine({"warm", manifest, "--root", daemon_.root()}, out, err, {}), 0);
  EXPECT_THAT(err.str(), HasSubstr("4 compiled, 0 failed"));
}

TEST_F(GraphCommandTest, WrongUsageIsSaid) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"paint"}, "'paint' is none of explain, compile, manifest"},
      {{"compile"}, "say what to compile for, as --target cuda:90"},
      {{"explain", "--compiler", "ptx"}, "say what to compile for, as --target cuda:90"},
      {{"explain", "-o", "x"}, "explain writes no files: leave -o out"},
      {{"manifest", "--target", "cuda:90"}, "name the new manifest, as -o job.kiln"},
      {{"explain", "--off", "soup"},
       "--off: 'soup' is no type of sections; there are elementwise, view, "},
      {{"explain", "--target", "cuda:90", "--compiler", "gcc"},
       "--compiler: 'gcc' is none of ptx, cuda, triton, opencl"},
      {{"explain", "--target", "cuda:90", "--compiler", "opencl"},
       "compiler opencl makes no code for target cuda:90; there are ptx, cuda, triton"},
      {{"explain", "--target", "cuda:90", "--compiler", "ptx"},
       "Relu (1): ptx cannot write it: PTX: an inner axis"},
      {{"compile", "--target", "vulkan:1"},
       "no compiler makes code for target \"vulkan:1\"; targets are written as cuda:90"},
      {{"compile", "--target", "cuda:90"},
       "no toolchain of the daemon compiles ptx, cuda, triton for cuda:90"},
  };
  for (auto [arguments, message] : cases) {
    arguments.insert(arguments.begin() + 1, Segment());
    EXPECT_EQ(Run(arguments), 2) << message;
    EXPECT_THAT(err_.str(), HasSubstr(message));
    EXPECT_THAT(out_.str(), IsEmpty());
  }
}

TEST_F(GraphCommandTest, AFileThatIsNoSegmentIsRefused) {
  EXPECT_EQ(Run({"explain", files_.File("absent.json")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("absent.json: No such file or directory"));
  EXPECT_EQ(Run({"explain", Write(std::string(kSegment).substr(0, 200))}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("layer.json: it is not JSON"));
  EXPECT_EQ(Run({"explain", Write("")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("layer.json: it is empty"));
  EXPECT_EQ(Run({"explain", Write("softmax")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("layer.json: it is no ONNX model, or is truncated"));
  EXPECT_EQ(Run({"explain", files_.path()}), 2);
  EXPECT_EQ(Run({"explain", SegmentWith("\"kiln_segment\": 1", "\"kiln_segment\": 2")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("this Kiln reads version 1, not 2"));
  EXPECT_EQ(Run({"explain", SegmentWith("MatMul", "MatMull")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("MatMul"));
  EXPECT_THAT(err_.str(), HasSubstr("MatMull"));
  EXPECT_EQ(
      Run({"explain", SegmentWith("\"inputs\": [\"x\", \"w\"]", "\"inputs\": [\"y\", \"w\"]")}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("cycle"));
}

TEST_F(GraphCommandTest, AnOnnxModelIsToldByItsContent) {
  const graph::OnnxMaker model{.nodes = {graph::OnnxNodeBytes("Softmax", {"x"}, {"y"})},
                               .inputs = {graph::OnnxValue("x", {"batch", "64"})},
                               .outputs = {graph::OnnxValue("y", {"batch", "64"})}};
  const std::string file = Write(model.Bytes());
  EXPECT_EQ(Run({"explain", file, "--target", "cuda:90", "--json"}), 0) << err_.str();
  const Json open = *ParseJson(out_.str());
  EXPECT_EQ(open["targets"][0]["symbols"], Json({"batch"}));
  EXPECT_EQ(Run({"explain", file, "--target", "cuda:90", "--json", "--dimension", "batch=8"}), 0);
  const Json fixed = *ParseJson(out_.str());
  EXPECT_EQ(fixed["targets"][0]["symbols"], Json::array());
  EXPECT_EQ(Run({"explain", file, "--target", "cuda:90", "--json", "--dimension", "batch=1..8"}),
            0);
  EXPECT_NE((*ParseJson(out_.str()))["targets"][0]["key"], open["targets"][0]["key"]);
}

TEST_F(GraphCommandTest, ADimensionsTypicalSizeAndMultipleAreThoseOfTheOtherInterfaces) {
  const graph::OnnxMaker model{.nodes = {graph::OnnxNodeBytes("Softmax", {"x"}, {"y"})},
                               .inputs = {graph::OnnxValue("x", {"batch", "64"})},
                               .outputs = {graph::OnnxValue("y", {"batch", "64"})}};
  const std::string file = Write(model.Bytes());
  const auto key_of = [&](const graph::Symbol& batch) {
    const auto segment = graph::ReadOnnxBytes(model.Bytes(), "", {.dimensions = {batch}});
    return graph::PlanKey(*segment, {}, {.target = "cuda:90"});
  };
  const auto key_by_command = [&](const char* dimension) {
    EXPECT_EQ(Run({"explain", file, "--target", "cuda:90", "--json", "--dimension", dimension}), 0)
        << err_.str();
    return (*ParseJson(out_.str()))["targets"][0]["key"].get<std::string>();
  };
  EXPECT_EQ(key_by_command("batch=1..64"), key_of({"batch", 1, 64, 64, 1}));
  EXPECT_EQ(key_by_command("batch=1..64:16"), key_of({"batch", 1, 64, 16, 1}));
  EXPECT_EQ(key_by_command("batch=8..64:16%8"), key_of({"batch", 8, 64, 16, 8}));
}

TEST_F(GraphCommandTest, ADimensionIsARangeOfAnOnnxModel) {
  for (const char* text : {"batch", "batch=", "batch=x", "batch=9..1", "=1..2", "batch=1..2..3",
                           "batch=-1..2", "batch=1..", "batch=1..8:", "batch=1..8:9",
                           "batch=2..8:1", "batch=1..8%0", "batch=1..8%2:4"}) {
    EXPECT_EQ(Run({"explain", Write("x"), "--dimension", text}), 2);
    EXPECT_THAT(err_.str(), HasSubstr("is not written as batch=8, batch=1..64 or")) << text;
  }
  EXPECT_EQ(Run({"explain", Segment(), "--dimension", "batch=1..8"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("a segment has ranges of its own"));
}

TEST_F(GraphCommandTest, WithoutADaemonNothingIsCompiled) {
  daemon_.Stop();
  EXPECT_EQ(Run({"compile", Segment(), "--target", "cuda:90"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("kiln: cannot reach the daemon: "));
}

}  // namespace
}  // namespace kiln::cli::graph_command_test
