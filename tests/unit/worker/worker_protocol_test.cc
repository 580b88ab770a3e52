#include "daemon/worker/worker_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kiln {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

CompileRequest Request() {
  CompileRequest request;
  request.target = {"cuda", "90", 32};
  return request;
}

Json Encode(const CompileRequest& request) {
  return Json::parse(EncodeCompileHeader(request, nullptr));
}

TEST(EncodeCompileHeaderTest, TargetAndDefaults) {
  EXPECT_EQ(
      Encode(Request()),
      Json::parse(R"({"kind": "ttir", "backend": "cuda", "architecture": "90", "warp_size": 32,
                      "options": {}})"));
}

TEST(EncodeCompileHeaderTest, LaunchParametersAreOptions) {
  CompileRequest request = Request();
  request.launch.num_warps = 8;
  request.launch.launch_pdl = true;
  request.launch.cluster_dims = {2, 1, 1};
  EXPECT_EQ(Encode(request)["options"],
            Json::parse(R"({"num_warps": 8, "launch_pdl": true, "cluster_dims": [2, 1, 1]})"));
}

TEST(EncodeCompileHeaderTest, TypesSurvive) {
  CompileRequest request = Request();
  request.options["flag"] = {true};
  request.options["number"] = {2.0};
  request.options["whole"] = {int64_t{2}};
  request.options["tuple"] = {OptionTuple{{std::string("a")}, {OptionTuple{}}}};
  EXPECT_EQ(Encode(request)["options"].dump(),
            R"({"flag":true,"number":2.0,"tuple":["a",[]],"whole":2})");
}

TEST(EncodeCompileHeaderTest, FoldedParametersAreNotPassed) {
  CompileRequest request = Request();
  request.specialization.parameters = {{"x", "*fp16", {}, {}},
                                       {"BLOCK", "constexpr", {}, OptionValue{int64_t{128}}}};
  EXPECT_EQ(Encode(request)["parameters"], Json::parse(R"([["x", "*fp16"]])"));
}

TEST(EncodeCompileHeaderTest, ThePtxasThatTheRequestNames) {
  Toolchain ptxas;
  ptxas.version = "13.0.88";
  ptxas.fingerprint = Digest::Of("ptxas");
  ptxas.directory = "/usr/local/cuda/bin/ptxas";
  const Json header = Json::parse(EncodeCompileHeader(Request(), &ptxas));
  EXPECT_EQ(header["ptxas"], Json({{"path", "/usr/local/cuda/bin/ptxas"},
                                   {"sha256", Digest::Of("ptxas").Hex()},
                                   {"version", "13.0.88"}}));
}

const std::vector<std::string>& Stages() {
  static const auto* const stages = new std::vector<std::string>{"ptx", "cubin"};
  return *stages;
}

Json Compiled() {
  return Json::parse(R"({
    "outcome": "compiled",
    "usage": {"cpu_micros": 5, "wall_micros": 6, "peak_bytes": 7},
    "stages": [{"name": "parse", "bytes": 0, "micros": 1}, {"name": "ptx", "bytes": 3, "micros": 2},
               {"name": "cubin", "bytes": 4, "micros": 3}],
    "kernel": {"name": "k", "shared_bytes": 1, "num_warps": 8, "num_ctas": 2, "warp_size": 32,
      "global_scratch_bytes": 3, "global_scratch_align": 4, "profile_scratch_bytes": 5, "profile_scratch_align": 6,
      "tensor_memory_columns": 7, "cluster_dims": [2, 1, 1], "launch_pdl": true, "launch_cooperative_grid": false,
      "registers": 40, "spill_bytes": null, "hidden_pointers": 2, "assembler": "ptxas 1", "toolchain_metadata": "{}",
      "parameters": [["x", "*f16"], ["", "i32"]],
      "tensor_descriptors": [{"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [64, 32], "fp4_padded": true}]}
  })");
}

absl::StatusOr<WorkerReply> Decode(const Json& header, const std::string& payload = "PTXcubi") {
  Frame frame;
  frame.type = FrameType::kResult;
  frame.header = header.dump();
  frame.payload = payload;
  return DecodeResult(frame, Stages());
}

TEST(DecodeResultTest, EveryFieldOfAKernel) {
  const auto reply = Decode(Compiled());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->outcome, WorkerReply::Outcome::kCompiled);
  const KernelMetadata& kernel = reply->metadata;
  EXPECT_EQ(kernel.name, "k");
  EXPECT_EQ(kernel.num_warps, 8);
  EXPECT_EQ(kernel.num_ctas, 2);
  EXPECT_EQ(kernel.profile_scratch_align, 6);
  EXPECT_EQ(kernel.tensor_memory_columns, 7);
  EXPECT_EQ(kernel.cluster_dims[0], 2);
  EXPECT_TRUE(kernel.launch_pdl);
  EXPECT_EQ(kernel.registers, 40);
  EXPECT_EQ(kernel.spill_bytes, std::nullopt);
  ASSERT_EQ(kernel.parameters.size(), 2u);
  EXPECT_EQ(kernel.parameters[1].type, "i32");
  ASSERT_EQ(kernel.tensor_descriptors.size(), 1u);
  EXPECT_EQ(kernel.tensor_descriptors[0].block_size, (std::vector<int64_t>{64, 32}));
  ASSERT_EQ(reply->stages.size(), 2u);
  EXPECT_EQ(reply->stages[0].bytes, "PTX");
  EXPECT_EQ(reply->stages[1].bytes, "cubi");
  EXPECT_EQ(reply->timings.size(), 3u);
  EXPECT_EQ(reply->usage.peak_bytes, 7u);
}

TEST(DecodeResultTest, AnyFieldMissingIsInternal) {
  for (const char* where : {"", "kernel", "usage"}) {
    const Json whole = Compiled();
    const Json& object = *where == '\0' ? whole : whole[where];
    for (const auto& [field, value] : object.items()) {
      if (value.is_null() || field == "registers") continue;
      Json damaged = whole;
      (*where == '\0' ? damaged : damaged[where]).erase(field);
      EXPECT_TRUE(absl::IsInternal(Decode(damaged).status())) << where << "." << field;
    }
  }
}

TEST(DecodeResultTest, AnyFieldOfAnotherTypeIsInternal) {
  for (const Json& wrong : {Json(-1), Json(1.5), Json("text"), Json::array({Json::object()}),
                            Json(uint64_t{1} << 63)}) {
    const Json whole = Compiled();
    for (const auto& [field, value] : whole["kernel"].items()) {
      if (value.is_string() && wrong.is_string()) continue;
      Json damaged = whole;
      damaged["kernel"][field] = wrong;
      EXPECT_TRUE(absl::IsInternal(Decode(damaged).status())) << field << " = " << wrong;
    }
  }
}

TEST(DecodeResultTest, StagesMustBeThoseOfTheToolchain) {
  Json damaged = Compiled();
  damaged["stages"][1]["name"] = "../../etc/passwd";
  EXPECT_TRUE(absl::IsInternal(Decode(damaged).status()));
  damaged = Compiled();
  damaged["stages"].erase(2);
  EXPECT_TRUE(absl::IsInternal(Decode(damaged, "PTX").status()));
  damaged = Compiled();
  damaged["stages"].push_back({{"name", "cubin"}, {"bytes", 0}, {"micros", 1}});
  EXPECT_TRUE(absl::IsInternal(Decode(damaged).status()));
}

TEST(DecodeResultTest, SizesMustAddUp) {
  EXPECT_TRUE(absl::IsInternal(Decode(Compiled(), "PTXcub").status()));
  EXPECT_TRUE(absl::IsInternal(Decode(Compiled(), "PTXcubin").status()));
  Json damaged = Compiled();
  damaged["stages"][2]["bytes"] = 0;
  EXPECT_TRUE(absl::IsInternal(Decode(damaged, "PTX").status()));
}

TEST(DecodeResultTest, NotJsonIsInternal) {
  for (const char* header :
       {"", "{", "null", "[]", "\xff", "{\"outcome\": \"compiled\"}", "{\"outcome\": 3}"}) {
    Frame frame;
    frame.type = FrameType::kResult;
    frame.header = header;
    EXPECT_TRUE(absl::IsInternal(DecodeResult(frame, Stages()).status())) << header;
  }
}

Json Failed() {
  return Json::parse(
      R"({"outcome": "failed", "usage": {"cpu_micros": 5, "wall_micros": 6, "peak_bytes": 7},
    "failure": {"code": "resource_exhausted", "stage": "cubin", "message": "too much", "line": 3, "column": 4,
                "output": "words", "deterministic": true}})");
}

TEST(DecodeResultTest, AFailure) {
  const auto reply = Decode(Failed(), "");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->failure.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(reply->failure.stage, "cubin");
  EXPECT_EQ(reply->failure.line, 3);
  EXPECT_EQ(reply->failure.output, "words");
}

TEST(DecodeResultTest, AFailureMayNotClaimAnyCode) {
  for (const char* code : {"ok", "unauthenticated", "not_found", ""}) {
    Json damaged = Failed();
    damaged["failure"]["code"] = code;
    EXPECT_TRUE(absl::IsInternal(Decode(damaged, "").status())) << code;
  }
}

TEST(DecodeResultTest, ACrashNeedsNoFailure) {
  Json crashed = Failed();
  crashed["outcome"] = "crashed";
  crashed.erase("failure");
  const auto reply = Decode(crashed, "");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->outcome, WorkerReply::Outcome::kCrashed);
}

}  // namespace
}  // namespace kiln
