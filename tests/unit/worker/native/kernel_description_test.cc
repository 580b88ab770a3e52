#include "daemon/worker/native/kernel_description.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/worker/native/messages.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

std::string Entry(const std::string& name, int parameters) {
  std::string text = ".visible .entry " + name + "(\n";
  for (int i = 0; i < parameters; ++i) {
    text += fmt::format("{}\t.param .u64 {}_param_{}", i == 0 ? "" : ",\n", name, i);
  }
  return text + "\n)\n{\n\tret;\n}\n";
}

// As the daemon reads what the worker makes of it.
WorkerReply Describe(const std::string& ptx) {
  WorkerReply reply = DescribeKernel({}, ptx, "", "");
  reply.timings = {{"cubin", 1}};
  reply.stages = {{"cubin", "binary"}};
  ResultMessage message = EncodeResult(reply);
  Frame frame;
  frame.type = FrameType::kResult;
  frame.header = std::move(message.header);
  frame.payload = std::move(message.payload);
  const auto decoded = DecodeResult(frame, {"cubin"});
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.ok() ? *decoded : WorkerReply();
}

TEST(KernelDescriptionTest, ParametersWithTheirNames) {
  const WorkerReply reply = Describe(Entry("add", 2));
  EXPECT_EQ(reply.metadata.parameters,
            (std::vector<KernelParameter>{{"add_param_0", "u64"}, {"add_param_1", "u64"}}));
}

TEST(KernelDescriptionTest, ALongNameIsTheKernelsAndNotEachParameters) {
  for (const size_t size : {limits::kNameBytesMax, limits::kKernelNameBytesMax}) {
    const std::string name(size, 'a');
    const WorkerReply reply = Describe(Entry(name, 40));
    ASSERT_EQ(reply.outcome, WorkerReply::Outcome::kCompiled);
    EXPECT_EQ(reply.metadata.name, name);
    EXPECT_EQ(reply.metadata.parameters, std::vector<KernelParameter>(40, {"", "u64"}));
  }
}

TEST(KernelDescriptionTest, ManyParametersOfManyNamesFit) {
  const WorkerReply reply = Describe(Entry(std::string(1000, 'a'), limits::kParametersMax));
  ASSERT_EQ(reply.outcome, WorkerReply::Outcome::kCompiled);
  ASSERT_EQ(reply.metadata.parameters.size(), limits::kParametersMax);
  EXPECT_FALSE(reply.metadata.parameters.front().name.empty());
  EXPECT_TRUE(reply.metadata.parameters.back().name.empty());
}

TEST(KernelDescriptionTest, NamesAreLeftOutAsTheTritonWorkerLeavesThemOut) {
  std::ifstream file(KILN_SOURCE_DIR "/tests/vectors/worker_replies.json");
  const auto vectors = nlohmann::json::parse(file);
  for (const auto& groups : vectors.at("parameter_names")) {
    std::string parameters;
    std::vector<KernelParameter> expected;
    for (const auto& group : groups) {
      const std::string name(group.at("bytes").get<size_t>(), 'a');
      for (int i = 0; i < group.at("names"); ++i) {
        parameters += (parameters.empty() ? "\t.param .u64 " : ",\n\t.param .u64 ") + name;
        expected.push_back({i < group.at("kept") ? name : "", "u64"});
      }
    }
    const WorkerReply reply = Describe(".visible .entry k(\n" + parameters + "\n)\n{\n\tret;\n}\n");
    EXPECT_EQ(reply.metadata.parameters, expected) << groups;
  }
}

TEST(KernelDescriptionTest, DescribesAsManyKernelsAsFit) {
  std::string ptx;
  for (int i = 0; i < 300; ++i) ptx += Entry(fmt::format("{}{}", std::string(200, 'k'), i), 40);
  const WorkerReply reply = Describe(ptx);
  ASSERT_EQ(reply.outcome, WorkerReply::Outcome::kCompiled);
  const auto metadata = nlohmann::json::parse(reply.metadata.toolchain_metadata);
  EXPECT_EQ(metadata["entry_count"], 300);
  EXPECT_GT(metadata["entries"].size(), 10u);
  EXPECT_LT(metadata["entries"].size(), 256u);
  EXPECT_EQ(metadata["entries"][0]["parameters"].size(), 40u);
}

}  // namespace
}  // namespace kiln
