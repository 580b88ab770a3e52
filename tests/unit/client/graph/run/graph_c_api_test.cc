// kiln_graph.h as a program uses it, and misuses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client/graph/c_api/kiln_graph.h"

namespace {

using testing::HasSubstr;

constexpr char kGated[] = R"({"kiln_segment": 1, "name": "gated",
 "symbols": [{"name": "batch", "max": 64}],
 "values": [{"name": "x", "type": "f32", "shape": ["batch", 8], "role": "input"},
            {"name": "w", "type": "f32", "shape": [8, 16], "role": "constant"},
            {"name": "h", "type": "f32", "shape": ["batch", 16]},
            {"name": "y", "type": "f32", "shape": ["batch", 16], "role": "output"}],
 "operations": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]},
                {"op": "Elu", "inputs": ["h"], "outputs": ["y"], "attributes": {"alpha": 0.5}}]})";

class GraphCApiTest : public testing::Test {
 protected:
  ~GraphCApiTest() override {
    kiln_graph_plan_close(plan_);
    kiln_graph_segment_close(segment_);
  }
  void OpenGated() {
    ASSERT_EQ(kiln_graph_segment_open_json(kGated, sizeof kGated - 1, &segment_), KILN_GRAPH_OK)
        << kiln_graph_error();
  }
  kiln_graph_code Open(const char* target, const char* compilers = nullptr,
                       const char* forced = nullptr, const char* off = nullptr) {
    kiln_graph_plan_options options{};
    options.size = sizeof options;
    options.target = target;
    options.compilers = compilers;
    options.forced = forced;
    options.off = off;
    return kiln_graph_plan_open(segment_, &options, &plan_);
  }
  kiln_graph_code AddValue(const char* name, std::vector<const char*> shape, uint32_t role,
                           int32_t* number) {
    kiln_graph_value value{};
    value.size = sizeof value;
    value.name = name;
    value.type = "f32";
    value.role = role;
    value.shape = shape.data();
    value.rank = static_cast<uint32_t>(shape.size());
    return kiln_graph_segment_add_value(segment_, &value, number);
  }
  kiln_graph_code AddOperation(const char* name, const std::vector<int32_t>& inputs,
                               int32_t* output, const char* attributes = nullptr) {
    kiln_graph_operation operation{};
    operation.size = sizeof operation;
    operation.name = name;
    operation.inputs = inputs.data();
    operation.input_count = static_cast<uint32_t>(inputs.size());
    operation.outputs = output;
    operation.output_count = 1;
    operation.attributes = attributes;
    return kiln_graph_segment_add_operation(segment_, &operation);
  }
  std::string Json() {
    const char* json = nullptr;
    uint64_t bytes = 0;
    EXPECT_EQ(kiln_graph_segment_get_json(segment_, &json, &bytes), KILN_GRAPH_OK);
    return {json, bytes};
  }

  kiln_graph_segment* segment_ = nullptr;
  kiln_graph_plan* plan_ = nullptr;
};

TEST_F(GraphCApiTest, ASegmentBuiltByCallsIsTheOneInJson) {
  OpenGated();
  const std::string expected = Json();
  kiln_graph_segment_close(segment_);
  ASSERT_EQ(kiln_graph_segment_open("gated", &segment_), KILN_GRAPH_OK);
  kiln_graph_symbol symbol{};
  symbol.size = sizeof symbol;
  symbol.name = "batch";
  symbol.min = 1;
  symbol.max = 64;
  ASSERT_EQ(kiln_graph_segment_add_symbol(segment_, &symbol, nullptr), KILN_GRAPH_OK);
  int32_t x = -1;
  int32_t w = -1;
  int32_t h = KILN_GRAPH_NEW;
  int32_t y = KILN_GRAPH_NEW;
  ASSERT_EQ(AddValue("x", {"batch", "8"}, KILN_GRAPH_INPUT, &x), KILN_GRAPH_OK);
  ASSERT_EQ(AddValue("w", {"8", "16"}, KILN_GRAPH_CONSTANT, &w), KILN_GRAPH_OK);
  ASSERT_EQ(AddOperation("MatMul", {x, w}, &h), KILN_GRAPH_OK) << kiln_graph_error();
  ASSERT_EQ(AddOperation("Elu", {h}, &y, R"({"alpha": 0.5})"), KILN_GRAPH_OK) << kiln_graph_error();
  ASSERT_EQ(kiln_graph_segment_set_role(segment_, h, 0, "h"), KILN_GRAPH_OK);
  ASSERT_EQ(kiln_graph_segment_set_role(segment_, y, KILN_GRAPH_OUTPUT, "y"), KILN_GRAPH_OK);
  EXPECT_EQ(Json(), expected);
}

TEST_F(GraphCApiTest, ANewOutputHasTheInferredTypeAndShape) {
  OpenGated();
  kiln_graph_value value{};
  value.size = sizeof value;
  int32_t sum = KILN_GRAPH_NEW;
  ASSERT_EQ(AddOperation("ReduceSum", {3}, &sum, R"({"keepdims": 0})"), KILN_GRAPH_OK)
      << kiln_graph_error();
  ASSERT_EQ(kiln_graph_segment_get_value(segment_, sum, &value), KILN_GRAPH_OK);
  EXPECT_STREQ(value.name, "v4");
  EXPECT_STREQ(value.type, "f32");
  EXPECT_EQ(value.rank, 0u);
  ASSERT_EQ(kiln_graph_segment_get_value(segment_, 0, &value), KILN_GRAPH_OK);
  ASSERT_EQ(value.rank, 2u);
  EXPECT_STREQ(value.shape[0], "batch");
  EXPECT_STREQ(value.shape[1], "8");
  EXPECT_EQ(value.strides, nullptr);
  EXPECT_EQ(value.role, static_cast<uint32_t>(KILN_GRAPH_INPUT));
}

TEST_F(GraphCApiTest, AFailedOperationLeavesTheSegmentAsItWas) {
  OpenGated();
  const std::string before = Json();
  int32_t output = KILN_GRAPH_NEW;
  EXPECT_EQ(AddOperation("Reluu", {0}, &output), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("did you mean Relu?"));
  EXPECT_EQ(AddOperation("Add", {0}, &output), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("it has 1 inputs; Add takes 2"));
  EXPECT_EQ(AddOperation("Add", {0, 99}, &output), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("no value has the number 99"));
  EXPECT_EQ(AddOperation("Elu", {0}, &output, "{"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("not JSON"));
  EXPECT_EQ(AddOperation("Elu", {0}, &output, R"({"beta": 1})"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("no attribute \"beta\""));
  EXPECT_EQ(AddOperation("Add", {0, 1}, &output), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("operation 2 (Add)"));
  EXPECT_EQ(output, KILN_GRAPH_NEW);
  EXPECT_EQ(Json(), before);
}

TEST_F(GraphCApiTest, WhatTheEngineKeepsNeedsNoKnownOperator) {
  OpenGated();
  const int32_t inputs[] = {3};
  int32_t output = KILN_GRAPH_NEW;
  kiln_graph_operation operation{};
  operation.size = sizeof operation;
  operation.name = "com.example.Sample";
  operation.inputs = inputs;
  operation.input_count = 1;
  operation.outputs = &output;
  operation.output_count = 1;
  operation.kept_because = "it draws random numbers";
  ASSERT_EQ(kiln_graph_segment_add_operation(segment_, &operation), KILN_GRAPH_OK)
      << kiln_graph_error();
  kiln_graph_value value{};
  value.size = sizeof value;
  ASSERT_EQ(kiln_graph_segment_get_value(segment_, output, &value), KILN_GRAPH_OK);
  EXPECT_EQ(value.type, nullptr);
  ASSERT_EQ(Open("cuda:90"), KILN_GRAPH_OK) << kiln_graph_error();
  kiln_graph_step step{};
  step.size = sizeof step;
  ASSERT_EQ(kiln_graph_plan_get_step(plan_, 1, &step), KILN_GRAPH_OK);
  EXPECT_EQ(step.is_engines, 1u);
  EXPECT_EQ(step.operation, 2);
  EXPECT_STREQ(step.reason, "it draws random numbers");
}

TEST_F(GraphCApiTest, WhatTheEngineKeepsReadsValuesThatAreThere) {
  OpenGated();
  const std::string before = Json();
  int32_t output = KILN_GRAPH_NEW;
  kiln_graph_operation operation{};
  operation.size = sizeof operation;
  operation.name = "com.example.Sample";
  operation.input_count = 1;
  operation.outputs = &output;
  operation.output_count = 1;
  operation.kept_because = "it draws random numbers";
  for (const int32_t input : {int32_t{99}, int32_t{KILN_GRAPH_NEW}}) {
    operation.inputs = &input;
    EXPECT_EQ(kiln_graph_segment_add_operation(segment_, &operation), KILN_GRAPH_INVALID_ARGUMENT);
    EXPECT_THAT(kiln_graph_error(), HasSubstr("no value has the number"));
  }
  EXPECT_EQ(Json(), before);
}

TEST_F(GraphCApiTest, BadJsonNamesTheField) {
  const std::string json = R"({"kiln_segment": 1, "values": [{"name": "x", "type": "f99"}]})";
  EXPECT_EQ(kiln_graph_segment_open_json(json.data(), json.size(), &segment_),
            KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_graph_error(), "values[0].type: \"f99\" is no type");
  EXPECT_EQ(segment_, nullptr);
  EXPECT_EQ(kiln_graph_segment_open_json("{", 1, &segment_), KILN_GRAPH_INVALID_ARGUMENT);
}

TEST_F(GraphCApiTest, NullIsRefusedAndMayBeClosed) {
  EXPECT_EQ(kiln_graph_segment_open(nullptr, &segment_), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("NULL"));
  EXPECT_EQ(kiln_graph_segment_open("x", nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_graph_plan_open(nullptr, nullptr, &plan_), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_graph_bind(nullptr, nullptr, 0, nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_graph_execute(nullptr, nullptr, nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_graph_check_replay(nullptr, nullptr, nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  kiln_graph_segment_close(nullptr);
  kiln_graph_plan_close(nullptr);
  kiln_graph_bound_close(nullptr);
  ASSERT_EQ(kiln_graph_segment_open("x", &segment_), KILN_GRAPH_OK);
  kiln_graph_value value{};
  value.size = sizeof value;
  EXPECT_EQ(kiln_graph_segment_add_value(segment_, &value, nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  const char* shape[] = {nullptr};
  value.name = value.type = "f32";
  value.shape = shape;
  value.rank = 1;
  EXPECT_EQ(kiln_graph_segment_add_value(segment_, &value, nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  kiln_graph_operation operation{};
  operation.size = sizeof operation;
  operation.name = "Relu";
  operation.input_count = 1;
  EXPECT_EQ(kiln_graph_segment_add_operation(segment_, &operation), KILN_GRAPH_INVALID_ARGUMENT);
}

TEST_F(GraphCApiTest, StructsOfOtherVersionsAreTaken) {
  OpenGated();
  kiln_graph_plan_options options{};
  EXPECT_EQ(kiln_graph_plan_open(segment_, &options, &plan_), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("has no size"));
  options.target = "cuda:90";
  options.compilers = "nonsense";
  options.size = offsetof(kiln_graph_plan_options, compilers);
  ASSERT_EQ(kiln_graph_plan_open(segment_, &options, &plan_), KILN_GRAPH_OK) << kiln_graph_error();
  struct {
    kiln_graph_plan_info known;
    uint32_t of_a_later_version;
  } info{};
  info.known.size = sizeof info;
  info.of_a_later_version = 7;
  ASSERT_EQ(kiln_graph_plan_get_info(plan_, &info.known), KILN_GRAPH_OK);
  EXPECT_EQ(info.known.size, sizeof info);
  EXPECT_EQ(info.of_a_later_version, 7u);
  info.known = {};
  info.known.size = offsetof(kiln_graph_plan_info, kernels);
  ASSERT_EQ(kiln_graph_plan_get_info(plan_, &info.known), KILN_GRAPH_OK);
  EXPECT_EQ(info.known.steps, 1u);
  EXPECT_EQ(info.known.kernels, 0u) << "an older program does not know it";
  info.known.size = 0;
  EXPECT_EQ(kiln_graph_plan_get_info(plan_, &info.known), KILN_GRAPH_INVALID_ARGUMENT);
}

TEST_F(GraphCApiTest, WrongOptionsAreNamed) {
  OpenGated();
  EXPECT_EQ(Open(nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_graph_error(), "a plan needs a target");
  EXPECT_EQ(Open("metal:3"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("metal"));
  EXPECT_EQ(Open("cuda:90", "ptx,gcc"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("no compiler \"gcc\""));
  EXPECT_EQ(Open("cuda:90", nullptr, "opencl"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(Open("cuda:90", nullptr, nullptr, "matmul,warp"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("\"warp\""));
  EXPECT_EQ(plan_, nullptr);
}

TEST_F(GraphCApiTest, APlanTellsStepsKernelsAndBuffers) {
  OpenGated();
  ASSERT_EQ(Open("spirv:1.2"), KILN_GRAPH_OK) << kiln_graph_error();
  kiln_graph_segment_close(std::exchange(segment_, nullptr));
  kiln_graph_plan_info info{};
  info.size = sizeof info;
  ASSERT_EQ(kiln_graph_plan_get_info(plan_, &info), KILN_GRAPH_OK);
  EXPECT_EQ(info.steps, 1u);
  EXPECT_EQ(info.kernels, 1u);
  EXPECT_EQ(info.buffers, 3u);
  kiln_graph_kernel kernel{};
  kernel.size = sizeof kernel;
  ASSERT_EQ(kiln_graph_plan_get_kernel(plan_, 0, &kernel), KILN_GRAPH_OK);
  EXPECT_STREQ(kernel.kind, "opencl");
  EXPECT_STREQ(kernel.target, "spirv:1.2");
  EXPECT_EQ(std::strlen(kernel.text), kernel.text_bytes);
  EXPECT_THAT(kernel.text, HasSubstr(kernel.entry));
  EXPECT_EQ(kernel.num_warps, 0u);
  EXPECT_EQ(kernel.step, 0);
  kiln_graph_buffer buffer{};
  buffer.size = sizeof buffer;
  ASSERT_EQ(kiln_graph_plan_get_buffer(plan_, 0, &buffer), KILN_GRAPH_OK);
  EXPECT_STREQ(buffer.name, "x");
  EXPECT_STREQ(buffer.type, "f32");
  EXPECT_EQ(buffer.is_external, 1u);
  EXPECT_EQ(buffer.is_written, 0u);
  const char* text = nullptr;
  ASSERT_EQ(kiln_graph_plan_get_explanation(plan_, &text), KILN_GRAPH_OK);
  EXPECT_THAT(text, HasSubstr("by opencl"));
  ASSERT_EQ(kiln_graph_plan_get_key(plan_, &text), KILN_GRAPH_OK);
  EXPECT_EQ(std::strlen(text), 64u);
}

TEST_F(GraphCApiTest, NumbersOutOfRangeAreRefused) {
  OpenGated();
  ASSERT_EQ(Open("spirv:1.2"), KILN_GRAPH_OK) << kiln_graph_error();
  kiln_graph_step step{};
  step.size = sizeof step;
  EXPECT_EQ(kiln_graph_plan_get_step(plan_, 1, &step), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_STREQ(kiln_graph_error(), "there are 1 steps, there is no number 1");
  EXPECT_EQ(kiln_graph_plan_use_next_compiler(plan_, 5, "x"), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_graph_segment_set_role(segment_, -1, 0, nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_graph_segment_set_role(segment_, 0, 8, nullptr), KILN_GRAPH_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_graph_error(), HasSubstr("8 is no role"));
}

TEST_F(GraphCApiTest, AKernelWithoutACompilerLeftBelongsToTheEngine) {
  OpenGated();
  ASSERT_EQ(Open("spirv:1.2"), KILN_GRAPH_OK) << kiln_graph_error();
  EXPECT_EQ(kiln_graph_plan_use_next_compiler(plan_, 0, "clang crashed"), KILN_GRAPH_NOT_FOUND);
  kiln_graph_plan_info info{};
  info.size = sizeof info;
  ASSERT_EQ(kiln_graph_plan_get_info(plan_, &info), KILN_GRAPH_OK);
  EXPECT_EQ(info.steps, 2u);
  EXPECT_EQ(info.buffers, 0u);
  kiln_graph_step step{};
  step.size = sizeof step;
  ASSERT_EQ(kiln_graph_plan_get_step(plan_, 0, &step), KILN_GRAPH_OK);
  EXPECT_EQ(step.is_engines, 1u);
  EXPECT_THAT(step.reason, HasSubstr("clang crashed"));
  kiln_graph_kernel kernel{};
  kernel.size = sizeof kernel;
  ASSERT_EQ(kiln_graph_plan_get_kernel(plan_, 0, &kernel), KILN_GRAPH_OK);
  EXPECT_EQ(kernel.step, -1);
}

TEST_F(GraphCApiTest, EachChoiceOfACompilerIsALineOfTheLog) {
  OpenGated();
  std::vector<std::string> lines;
  kiln_graph_plan_options options{};
  options.size = sizeof options;
  options.target = "spirv:1.2";
  options.log = [](void* data, const char* line) {
    static_cast<std::vector<std::string>*>(data)->emplace_back(line);
  };
  options.log_data = &lines;
  ASSERT_EQ(kiln_graph_plan_open(segment_, &options, &plan_), KILN_GRAPH_OK) << kiln_graph_error();
  ASSERT_EQ(kiln_graph_plan_use_next_compiler(plan_, 0, "clang crashed"), KILN_GRAPH_NOT_FOUND);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("gated for spirv:1.2: kernel 0 of section 0, "));
  EXPECT_THAT(lines[0], HasSubstr(", by opencl: OpenCL C alone makes code for spirv"));
  EXPECT_EQ(lines[1], "gated for spirv:1.2: section 0 is the engine's: opencl: clang crashed");
}

}  // namespace
