#include "daemon/worker/native/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/worker/native/native_compiler.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Frame CompileFrame(std::string header, std::string payload = "text") {
  Frame frame;
  frame.type = FrameType::kCompile;
  frame.id = 7;
  frame.header = std::move(header);
  frame.payload = std::move(payload);
  return frame;
}

Frame ResultFrame(const WorkerReply& reply) {
  ResultMessage message = EncodeResult(reply);
  Frame frame;
  frame.type = FrameType::kResult;
  frame.header = std::move(message.header);
  frame.payload = std::move(message.payload);
  return frame;
}

TEST(MessagesTest, ARequestSurvivesTheWay) {
  CompileRequest request;
  request.target = {"cuda", "90a", 32};
  request.launch.maxnreg = 64;
  request.options["fmad"] = {false};
  request.options["names"] = {OptionTuple{{std::string("a")}, {int64_t{2}}}};
  request.specialization.parameters = {{"x", "*fp16", {}, {}}};
  const std::string header = EncodeCompileHeader(request, nullptr);
  const auto decoded = DecodeCompile(CompileFrame(header, "the source"));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->target, request.target);
  EXPECT_EQ(decoded->source.text, "the source");
  EXPECT_EQ(decoded->specialization, request.specialization);
  // Launch parameters are options to a compiler.
  Options expected = request.options;
  expected["maxnreg"] = {int64_t{64}};
  EXPECT_EQ(decoded->options, expected);
}

TEST(MessagesTest, HeadersTravelBehindTheSource) {
  CompileRequest request;
  request.target = {"cuda", "90", 32};
  request.source = {SourceKind::kCudaCxx, "source", ""};
  request.headers = {{"a.h", "first"}, {"empty.h", ""}, {"z.h", "last\xff"}};
  const std::string header = EncodeCompileHeader(request, nullptr);
  const auto decoded = DecodeCompile(CompileFrame(header, CompilePayload(request)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->source.text, "source");
  EXPECT_EQ(decoded->headers, request.headers);
}

TEST(MessagesTest, AHeaderBeyondThePayloadIsAnError) {
  for (const char* headers : {R"([["a", 9999]])", R"([["a", -1]])", R"([["a"]])", R"([[1, 1]])",
                              R"([["a", 3], ["b", 3]])", R"({})"}) {
    const std::string header =
        std::string(R"({"backend": "cuda", "architecture": "90", "warp_size": 32, "options": {},
                        "headers": )") +
        headers + "}";
    EXPECT_FALSE(DecodeCompile(CompileFrame(header, "text")).ok()) << headers;
  }
}

TEST(MessagesTest, MalformedRequestIsAnError) {
  for (const char* header :
       {"", "{", "null", "[]", "{}", R"({"backend": "cuda"})",
        R"({"backend": "cuda", "architecture": "90", "warp_size": 32, "options": {"a": null}})",
        R"({"backend": "cuda", "architecture": "90", "warp_size": 32, "options": {},
            "parameters": [["x"]]})"}) {
    EXPECT_FALSE(DecodeCompile(CompileFrame(header)).ok()) << header;
  }
  Frame result = CompileFrame("{}");
  result.type = FrameType::kResult;
  EXPECT_FALSE(DecodeCompile(std::move(result)).ok());
}

TEST(MessagesTest, ACompiledKernelSurvivesTheWay) {
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kCompiled;
  reply.metadata.name = "add";
  reply.metadata.registers = 10;
  reply.metadata.shared_bytes = 256;
  reply.metadata.num_warps = 4;
  reply.metadata.cluster_dims = {2, 1, 1};
  reply.metadata.parameters = {{"x", "u64"}};
  reply.metadata.toolchain_metadata = "{}";
  reply.assembler = "ptxas 1";
  reply.timings = {{"parse", 3}, {"ptx", 4}, {"cubin", 5}};
  reply.stages = {{"ptx", "text"}, {"cubin", std::string("\0\xff", 2)}};
  reply.usage = {1, 2, 3};
  const auto decoded = DecodeResult(ResultFrame(reply), {"ptx", "cubin"});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->outcome, WorkerReply::Outcome::kCompiled);
  EXPECT_EQ(decoded->metadata.name, "add");
  EXPECT_EQ(decoded->metadata.registers, 10);
  EXPECT_EQ(decoded->metadata.spill_bytes, std::nullopt);
  EXPECT_EQ(decoded->metadata.cluster_dims, reply.metadata.cluster_dims);
  ASSERT_EQ(decoded->metadata.parameters.size(), 1u);
  EXPECT_EQ(decoded->metadata.parameters[0].type, "u64");
  ASSERT_EQ(decoded->stages.size(), 2u);
  EXPECT_EQ(decoded->stages[1].bytes, reply.stages[1].bytes);
  EXPECT_EQ(decoded->timings.size(), 3u);
  EXPECT_EQ(decoded->usage.peak_bytes, 3u);
}

TEST(MessagesTest, AFailureSurvivesTheWayWhateverItsEncoding) {
  WorkerReply reply;
  reply.failure.code = absl::StatusCode::kResourceExhausted;
  reply.failure.stage = "cubin";
  reply.failure.message = "too much \xff";
  reply.failure.line = 5;
  const auto decoded = DecodeResult(ResultFrame(reply), {"cubin"});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->outcome, WorkerReply::Outcome::kFailed);
  EXPECT_EQ(decoded->failure.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(decoded->failure.line, 5);
  EXPECT_THAT(decoded->failure.message, HasSubstr("too much"));
}

TEST(MessagesTest, CutsLongCompilerOutput) {
  // Three bytes as one character; one byte that becomes three.
  for (const std::string word : {"error ", "\u20ac", "\xff"}) {
    WorkerReply reply;
    std::string text;
    while (text.size() < 3 * limits::kDiagnosticsBytesMax) text += word;
    reply.failure.stage = text;
    reply.failure.message = "begin" + text;
    reply.failure.output = text + "end";
    const auto decoded = DecodeResult(ResultFrame(reply), {"cubin"});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(decoded->failure.message.starts_with("begin"));
    EXPECT_TRUE(decoded->failure.output.ends_with("end"));
    EXPECT_GT(decoded->failure.output.size(), limits::kDiagnosticsBytesMax - 4);
  }
}

WorkerReply CompiledReply() {
  WorkerReply reply;
  reply.outcome = WorkerReply::Outcome::kCompiled;
  reply.metadata.name = "add";
  reply.timings = {{"cubin", 5}};
  reply.stages = {{"cubin", "binary"}};
  return reply;
}

TEST(MessagesTest, AKernelBeyondTheLimitsIsAFailureAndNoNonsense) {
  std::vector<WorkerReply> replies(4, CompiledReply());
  replies[0].metadata.name.assign(limits::kKernelNameBytesMax + 1, 'a');
  replies[1].metadata.parameters.resize(limits::kParametersMax + 1);
  replies[2].metadata.toolchain_metadata.assign(limits::kToolchainMetadataBytesMax + 1, ' ');
  // Each within its own limit, together more than a frame.
  replies[3].metadata.parameters.assign(limits::kParametersMax,
                                        {std::string(limits::kNameBytesMax, 'n'), "u64"});
  for (const WorkerReply& reply : replies) {
    const auto decoded = DecodeResult(ResultFrame(reply), {"cubin"});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->outcome, WorkerReply::Outcome::kFailed);
    EXPECT_EQ(decoded->failure.code, absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(decoded->failure.deterministic);
    EXPECT_THAT(decoded->failure.message, HasSubstr("Kiln takes at most"));
  }
}

// What triton_worker.py says at most, too.
nlohmann::json ReplyVectors(const char* which) {
  std::ifstream file(KILN_SOURCE_DIR "/tests/vectors/worker_replies.json");
  return nlohmann::json::parse(file).at(which);
}

TEST(MessagesTest, PlacesAreThoseOfTheTritonWorker) {
  for (const nlohmann::json& each : ReplyVectors("places")) {
    WorkerReply reply;
    reply.failure.line = reply.failure.column = each.at("given");
    const auto decoded = DecodeResult(ResultFrame(reply), {"cubin"});
    ASSERT_TRUE(decoded.ok()) << each << decoded.status();
    EXPECT_EQ(decoded->failure.line, each.at("said").get<int>());
    EXPECT_EQ(decoded->failure.column, each.at("said").get<int>());
  }
}

TEST(MessagesTest, OutputIsCutAsByTheTritonWorker) {
  for (const nlohmann::json& each : ReplyVectors("outputs")) {
    std::string whole;
    for (int i = 0; i < each.at("times"); ++i) whole += each.at("text").get<std::string>();
    whole += each.at("end").get<std::string>();
    WorkerReply reply;
    reply.failure.output = whole;
    const auto decoded = DecodeResult(ResultFrame(reply), {"cubin"});
    ASSERT_TRUE(decoded.ok()) << each << decoded.status();
    EXPECT_EQ(decoded->failure.output.size(), each.at("bytes").get<size_t>()) << each;
    EXPECT_TRUE(whole.ends_with(decoded->failure.output)) << each;
  }
}

TEST(MessagesTest, ADescriptionIsTooLargeWhereItIsForTheTritonWorker) {
  for (const nlohmann::json& each : ReplyVectors("descriptions")) {
    WorkerReply reply = CompiledReply();
    const size_t size = each.at("size");
    if (each.at("field") == "name") reply.metadata.name.assign(size, 'n');
    if (each.at("field") == "toolchain_metadata") {
      reply.metadata.toolchain_metadata.assign(size, 'n');
    }
    if (each.at("field") == "parameters") {
      reply.metadata.parameters.assign(
          size, {std::string(each.at("name_bytes").get<size_t>(), 'n'), "u64"});
    }
    const auto decoded = DecodeResult(ResultFrame(reply), {"cubin"});
    ASSERT_TRUE(decoded.ok()) << each << decoded.status();
    EXPECT_EQ(decoded->outcome == WorkerReply::Outcome::kCompiled, each.at("outcome") == "compiled")
        << each;
    if (decoded->outcome != WorkerReply::Outcome::kCompiled) {
      EXPECT_EQ(decoded->failure.code, absl::StatusCode::kResourceExhausted);
    }
  }
}

TEST(MessagesTest, MarksOnlyVerdictsOnTheSourceAsDeterministic) {
  EXPECT_TRUE(FailedReply("options", InvalidArgument("x")).failure.deterministic);
  EXPECT_TRUE(FailedReply("cubin", ResourceExhausted("x")).failure.deterministic);
  for (const absl::Status& status : {Internal("x"), NotFound("x"), Cancelled("x")}) {
    const CompileFailure failure = FailedReply("cubin", status).failure;
    EXPECT_FALSE(failure.deterministic);
    EXPECT_EQ(failure.code, absl::StatusCode::kInternal);
  }
}

TEST(MessagesTest, LackOfTheMachineIsNotAFailureOfTheSource) {
  // A full disk has the code of a kernel that is too large.
  for (const absl::Status& status :
       {OfThisMachine(ErrnoStatus(ENOSPC, "write")), FailedPrecondition("no jail")}) {
    const WorkerReply reply = FailedReply("cubin", status);
    const auto decoded = DecodeResult(ResultFrame(reply), {"cubin"});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->outcome, WorkerReply::Outcome::kUnable);
    EXPECT_EQ(decoded->failure.code, status.code());
    EXPECT_FALSE(decoded->failure.deterministic);
  }
}

TEST(MessagesTest, WhatAWorkerCouldNotEnterIsRead) {
  Frame frame{FrameType::kReady, 0, EncodeReadyHeader({"Landlock: denied", "\xff"}), ""};
  const auto problems = DecodeReady(frame);
  ASSERT_TRUE(problems.ok()) << problems.status();
  EXPECT_THAT(*problems, ElementsAre("Landlock: denied", "\xEF\xBF\xBD"));
}

TEST(MessagesTest, AnotherFirstFrameIsRefused) {
  const std::vector<Frame> frames = {
      {FrameType::kResult, 0, EncodeReadyHeader({}), ""},
      {FrameType::kReady, 1, EncodeReadyHeader({}), ""},
      {FrameType::kReady, 0, "", ""},
      {FrameType::kReady, 0, "{}", ""},
      {FrameType::kReady, 0, R"({"jail_problems": [7]})", ""},
      {FrameType::kReady, 0, EncodeReadyHeader(std::vector<std::string>(65, "x")), ""},
      {FrameType::kReady, 0, EncodeReadyHeader({}), "payload"},
  };
  for (const Frame& frame : frames) {
    EXPECT_TRUE(absl::IsInternal(DecodeReady(frame).status())) << frame.header;
  }
}

}  // namespace
}  // namespace kiln
