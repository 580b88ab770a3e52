#include "daemon/messages/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "storage/base/limits.h"
#include "tests/testing/fake_catalog.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

v1::CompileRequest Minimal() {
  v1::CompileRequest request;
  request.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
  request.mutable_target()->set_backend("cuda");
  return request;
}

std::string Error(v1::CompileRequest request) {
  const auto converted = FromProto(std::move(request));
  EXPECT_EQ(converted.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(Message(converted.status()));
}

TEST(TranslateRequest, EveryFieldArrives) {
  v1::CompileRequest request = Minimal();
  request.mutable_source()->set_text(std::string("a\0b", 3));
  request.mutable_source()->set_name("k");
  request.mutable_target()->set_architecture("90");
  request.mutable_target()->set_warp_size(32);
  v1::Parameter& parameter = *request.mutable_specialization()->add_parameters();
  parameter.set_name("x");
  parameter.set_type("*fp16");
  (*parameter.mutable_attributes())["tt.divisibility"] = 16;
  parameter.mutable_constant()->set_int_value(7);
  request.mutable_launch()->set_num_warps(8);
  request.mutable_launch()->set_launch_pdl(false);
  for (const int64_t dimension : {2, 1, 1}) request.mutable_launch()->add_cluster_dims(dimension);
  v1::OptionTuple& tuple = *(*request.mutable_options())["t"].mutable_tuple_value();
  tuple.add_items()->set_bool_value(true);
  tuple.add_items()->set_double_value(0.5);
  tuple.add_items()->set_string_value("s");
  request.set_toolchain("triton==3.6.0");
  request.add_stages("ptx");
  request.set_cache_policy(v1::CACHE_POLICY_REFRESH);

  const auto converted = FromProto(std::move(request));
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(converted->source.text, std::string("a\0b", 3));
  EXPECT_EQ(converted->source.name, "k");
  EXPECT_EQ(converted->target, (Target{"cuda", "90", 32}));
  const Parameter expected{"x", "*fp16", {{"tt.divisibility", 16}}, OptionValue{int64_t{7}}};
  EXPECT_THAT(converted->specialization.parameters, ::testing::ElementsAre(expected));
  EXPECT_EQ(converted->launch.num_warps, 8);
  EXPECT_EQ(converted->launch.launch_pdl, false);
  EXPECT_FALSE(converted->launch.num_stages.has_value());
  EXPECT_EQ(converted->launch.cluster_dims, (std::array<int64_t, 3>{2, 1, 1}));
  const OptionTuple items{OptionValue{true}, OptionValue{0.5}, OptionValue{std::string("s")}};
  EXPECT_EQ(converted->options.at("t"), OptionValue{items});
  EXPECT_EQ(converted->toolchain, "triton==3.6.0");
  EXPECT_THAT(converted->stages, ::testing::ElementsAre("ptx"));
  EXPECT_EQ(converted->cache_policy, CachePolicy::kRefresh);
}

TEST(TranslateRequest, NamesMissingFields) {
  v1::CompileRequest request = Minimal();
  request.clear_source();
  EXPECT_THAT(Error(request), HasSubstr("source is missing"));
  request = Minimal();
  request.clear_target();
  EXPECT_THAT(Error(request), HasSubstr("target is missing"));
  request = Minimal();
  request.mutable_source()->clear_kind();
  EXPECT_THAT(Error(request), HasSubstr("source.kind is missing"));
  request = Minimal();
  (*request.mutable_options())["empty"];
  EXPECT_THAT(Error(request), HasSubstr("options[\"empty\"]"));
  request = Minimal();
  request.mutable_specialization()->add_parameters()->mutable_constant();
  EXPECT_THAT(Error(request), HasSubstr("constant"));
  request = Minimal();
  request.mutable_launch()->add_cluster_dims(1);
  EXPECT_THAT(Error(request), HasSubstr("cluster_dims has 1 values"));
}

TEST(TranslateRequest, CountsAtTheLimitAndOneMore) {
  v1::CompileRequest request = Minimal();
  for (size_t i = 0; i < limits::kOptionsMax; ++i) {
    (*request.mutable_options())[std::to_string(i)].set_int_value(1);
  }
  for (size_t i = 0; i < limits::kStagesMax; ++i) request.add_stages("ptx");
  for (size_t i = 0; i < limits::kParametersMax; ++i) {
    request.mutable_specialization()->add_parameters();
  }
  EXPECT_TRUE(FromProto(v1::CompileRequest(request)).ok());
  v1::CompileRequest more = request;
  (*more.mutable_options())["one more"].set_int_value(1);
  EXPECT_THAT(Error(more), HasSubstr("options has 257"));
  more = request;
  more.add_stages("ptx");
  EXPECT_THAT(Error(more), HasSubstr("17 stages"));
  more = request;
  more.mutable_specialization()->add_parameters();
  EXPECT_THAT(Error(more), HasSubstr("4097 parameters"));
}

TEST(TranslateRequest, TuplesAsDeepAsTheLimitAndDeeper) {
  const auto nested = [](size_t depth) {
    v1::CompileRequest request = Minimal();
    v1::OptionValue* value = &(*request.mutable_options())["deep"];
    for (size_t i = 0; i < depth; ++i) value = value->mutable_tuple_value()->add_items();
    value->set_int_value(1);
    return request;
  };
  EXPECT_TRUE(FromProto(nested(limits::kOptionDepthMax)).ok());
  EXPECT_THAT(Error(nested(limits::kOptionDepthMax + 1)), HasSubstr("nested deeper"));
}

TEST(TranslateOption, RoundTrip) {
  const OptionTuple inner{OptionValue{int64_t{-1}}, OptionValue{OptionTuple{}}};
  for (const OptionValue& value : {OptionValue{true}, OptionValue{int64_t{5}}, OptionValue{2.5},
                                   OptionValue{std::string("x")}, OptionValue{inner}}) {
    v1::CompileRequest request = Minimal();
    ToProto(value, (*request.mutable_options())["o"]);
    const auto converted = FromProto(std::move(request));
    ASSERT_TRUE(converted.ok());
    EXPECT_EQ(converted->options.at("o"), value);
  }
}

TEST(TranslateArtifact, WantedStagesInTheOrderAsked) {
  const auto artifact = MakeArtifactOf(*MakeJob("a"));
  v1::CompileResponse response;
  ASSERT_TRUE(ToProto(*artifact, Outcome::kHit, Tier::kDisk, {}, response).ok());
  EXPECT_EQ(response.tier(), v1::TIER_DISK);
  ASSERT_EQ(response.stages_size(), 1);
  EXPECT_EQ(response.stages(0).stage(), "cubin");

  response.Clear();
  const std::vector<std::string> both{"cubin", "ptx"};
  ASSERT_TRUE(ToProto(*artifact, Outcome::kCompiled, std::nullopt, both, response).ok());
  EXPECT_EQ(response.tier(), v1::TIER_UNSPECIFIED);
  ASSERT_EQ(response.stages_size(), 2);
  EXPECT_EQ(response.stages(1).stage(), "ptx");
  EXPECT_TRUE(response.stages(1).has_content());

  const std::vector<std::string> absent{"hsaco"};
  EXPECT_EQ(ToProto(*artifact, Outcome::kHit, Tier::kDisk, absent, response).code(),
            absl::StatusCode::kInternal);
}

TEST(TranslateArtifact, ContentAtTheInlineLimitAndOneByteMore) {
  for (const bool is_over : {false, true}) {
    Artifact artifact = *MakeArtifactOf(*MakeJob("a"));
    artifact.stages.back().blob =
        Blob::FromBytes(std::string(limits::kInlineBytesMax + (is_over ? 1 : 0), 'x'));
    v1::CompileResponse response;
    ASSERT_TRUE(ToProto(artifact, Outcome::kHit, Tier::kMemory, {}, response).ok());
    EXPECT_EQ(response.stages(0).has_content(), !is_over);
    EXPECT_EQ(response.stages(0).size_bytes(), artifact.stages.back().blob.size_bytes());
  }
}

TEST(TranslateToolchain, OptionsHaveTheTypesThatTheContractNames) {
  v1::Toolchain toolchain;
  ToProto(*MakeTriton(), toolchain);
  std::map<std::string, std::string> types;
  for (const auto& option : toolchain.backends(0).options()) types[option.name()] = option.type();
  EXPECT_EQ(types["enable_fp_fusion"], "bool");
  EXPECT_EQ(types["num_warps"], "integer");
  EXPECT_EQ(types["scale"], "number");
  EXPECT_EQ(types["ptx_options"], "string");
  EXPECT_EQ(types["cluster_dims"], "tuple");
  EXPECT_EQ(types["extern_libs"], "any");
}

}  // namespace
}  // namespace kiln
