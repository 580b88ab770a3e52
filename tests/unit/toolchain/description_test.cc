#include "daemon/toolchain/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "storage/base/limits.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json Valid() { return Json::parse(Describes("3.6.0")); }

std::string WhyInvalid(const std::string& text) {
  const auto parsed = ParseDescription(text);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kFailedPrecondition) << text;
  return std::string(Message(parsed.status()));
}

// With the declaration of one more option, "x", of the cuda backend.
std::string WithOption(const std::string& declaration) {
  Json json = Valid();
  json["backends"][0]["options"]["x"] = "HERE";
  std::string text = json.dump();
  return text.replace(text.find("\"HERE\""), 6, declaration);
}

TEST(DescriptionTest, GivesWhatTheWorkerSays) {
  const auto toolchain = ParseDescription(Describes("3.6.0"));
  ASSERT_TRUE(toolchain.ok()) << toolchain.status();
  EXPECT_EQ(toolchain->Name(), "triton==3.6.0");
  EXPECT_EQ(toolchain->assembler, "ptxas 12.8.93");
  EXPECT_EQ(toolchain->hidden_pointers, 2);
  EXPECT_THAT(toolchain->kinds, ElementsAre(SourceKind::kTtir));
  ASSERT_EQ(toolchain->backends.size(), 2u);
  const BackendDescription& cuda = toolchain->backends[0];
  EXPECT_EQ(cuda.backend, "cuda");
  EXPECT_THAT(cuda.architectures, ElementsAre("80", "90"));
  EXPECT_THAT(cuda.stages, ElementsAre("ttgir", "llir", "ptx", "cubin"));
  EXPECT_EQ(cuda.options.at("num_warps").type, OptionType::kInteger);
  EXPECT_EQ(cuda.options.at("num_warps").default_value, OptionValue{int64_t{4}});
  EXPECT_FALSE(cuda.options.at("maxnreg").default_value.has_value());
}

TEST(DescriptionTest, KeepsTheTypesOfDefaults) {
  const auto value = [](const std::string& declaration) {
    const auto toolchain = ParseDescription(WithOption(declaration));
    EXPECT_TRUE(toolchain.ok()) << toolchain.status();
    return toolchain.ok() ? toolchain->backends[0].options.at("x") : OptionDeclaration();
  };
  EXPECT_EQ(value(R"({"type": "bool", "default": true})").default_value, OptionValue{true});
  EXPECT_EQ(value(R"({"type": "number", "default": 1.0})").default_value, OptionValue{1.0});
  EXPECT_EQ(value(R"({"type": "integer", "default": -1})").default_value, OptionValue{int64_t{-1}});
  EXPECT_EQ(value(R"({"type": "string", "default": ""})").default_value,
            OptionValue{std::string()});
  EXPECT_EQ(value(R"({"type": "tuple", "default": ["a", [1, false]]})").default_value,
            (OptionValue{OptionTuple{{std::string("a")}, {OptionTuple{{int64_t{1}}, {false}}}}}));
  EXPECT_EQ(value(R"({"type": "any", "default": null})").default_value, std::nullopt);
}

TEST(DescriptionTest, StagesMayDependOnAnOption) {
  Json json = Valid();
  json["kinds"] = {"cuda"};
  json["backends"][0]["stages_with"] = {{"dlink-time-opt", {"ltoir"}}};
  const auto toolchain = ParseDescription(json.dump());
  ASSERT_TRUE(toolchain.ok()) << toolchain.status();
  EXPECT_EQ(toolchain->kinds, std::vector{SourceKind::kCudaCxx});
  const BackendDescription& cuda = toolchain->backends[0];
  EXPECT_EQ(cuda.StagesOf(SourceKind::kCudaCxx, {{"dlink-time-opt", {true}}}),
            std::vector<std::string>{"ltoir"});
  EXPECT_EQ(cuda.StagesOf(SourceKind::kCudaCxx, {{"dlink-time-opt", {false}}}), cuda.stages);
  for (const Json& wrong : {Json(1), Json({{"x", "y"}}), Json({{"x", {"a b"}}})}) {
    json["backends"][0]["stages_with"] = wrong;
    WhyInvalid(json.dump());
  }
}

TEST(DescriptionTest, GarbageIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("null"), std::string("[]"), std::string("{}"),
        std::string("\xff\xfe"), std::string("\0", 1), Describes("3.6.0") + "x",
        std::string("Warning: x\n") + Describes("3.6.0"), std::string(200'000, '[')}) {
    WhyInvalid(text);
  }
}

TEST(DescriptionTest, EachMissingOrMistypedFieldIsNamed) {
  for (const char* field :
       {"protocol", "name", "version", "assembler", "hidden_pointers", "kinds", "backends"}) {
    Json json = Valid();
    json.erase(field);
    EXPECT_THAT(WhyInvalid(json.dump()), HasSubstr(field));
    json[field] = {{"an", "object"}};
    EXPECT_THAT(WhyInvalid(json.dump()), HasSubstr(field));
  }
  for (const char* field : {"backend", "architectures", "stages", "options"}) {
    Json json = Valid();
    json["backends"][1].erase(field);
    EXPECT_THAT(WhyInvalid(json.dump()), HasSubstr(field));
    json["backends"][1][field] = 7;
    EXPECT_THAT(WhyInvalid(json.dump()), HasSubstr(field));
  }
}

TEST(DescriptionTest, AnotherProtocolIsRefusedWithBothNumbers) {
  Json json = Valid();
  json["protocol"] = 2;
  EXPECT_THAT(WhyInvalid(json.dump()), testing::AllOf(HasSubstr("2"), HasSubstr("1")));
}

TEST(DescriptionTest, NamesAreWords) {
  for (const char* path : {"/name", "/version", "/backends/0/backend",
                           "/backends/0/architectures/0", "/backends/0/stages/0"}) {
    for (const char* word : {"", "a b", "../x", "a\nb", "\xc3\xa4"}) {
      Json json = Valid();
      json[Json::json_pointer(path)] = word;
      WhyInvalid(json.dump());
    }
  }
}

TEST(DescriptionTest, ABackendThatIsThereTwiceOrHasNothingIsRefused) {
  Json json = Valid();
  json["backends"][1]["backend"] = "cuda";
  EXPECT_THAT(WhyInvalid(json.dump()), HasSubstr("twice"));
  for (const char* list : {"architectures", "stages"}) {
    json = Valid();
    json["backends"][0][list] = Json::array();
    EXPECT_THAT(WhyInvalid(json.dump()), HasSubstr(list));
  }
}

TEST(DescriptionTest, ImpossibleOptionsAreRefused) {
  for (const char* declaration :
       {"7", "{}", R"({"type": "float8"})", R"({"type": 1})", R"({"type": "any", "default": {}})",
        R"({"type": "integer", "default": 9223372036854775808})",
        R"({"type": "tuple", "default": [null]})",
        R"({"type": "tuple", "default": [[[[[[[[[[1]]]]]]]]]]})"}) {
    EXPECT_THAT(WhyInvalid(WithOption(declaration)), HasSubstr("option x")) << declaration;
  }
}

TEST(DescriptionTest, EverythingIsBounded) {
  Json json = Valid();
  json["assembler"] = std::string(limits::kToolchainDescriptionBytesMax, 'a');
  WhyInvalid(json.dump());
  json = Valid();
  for (size_t i = 0; i <= limits::kOptionsMax; ++i) {
    json["backends"][0]["options"][fmt::format("option{}", i)] = {{"type", "any"}};
  }
  WhyInvalid(json.dump());
  json = Valid();
  json["backends"][0]["architectures"] =
      std::vector<std::string>(limits::kToolchainArchitecturesMax + 1, "90");
  WhyInvalid(json.dump());
  json = Valid();
  json["backends"] = Json::array();
  for (size_t i = 0; i <= limits::kToolchainBackendsMax; ++i) {
    json["backends"].push_back(Valid()["backends"][0]);
    json["backends"].back()["backend"] = fmt::format("b{}", i);
  }
  WhyInvalid(json.dump());
}

}  // namespace
}  // namespace kiln
