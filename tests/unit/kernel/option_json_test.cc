#include "daemon/kernel/option_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

TEST(OptionJsonTest, TypesSurvive) {
  EXPECT_EQ(*OptionFromJson(Json(true)), OptionValue{true});
  EXPECT_EQ(*OptionFromJson(Json(2)), OptionValue{int64_t{2}});
  EXPECT_EQ(*OptionFromJson(Json(2.0)), OptionValue{2.0});
  EXPECT_EQ(*OptionFromJson(Json("2")), OptionValue{std::string("2")});
  EXPECT_EQ(*OptionFromJson(Json::parse("[1, [\"a\"]]")),
            (OptionValue{OptionTuple{{int64_t{1}}, {OptionTuple{{std::string("a")}}}}}));
}

TEST(OptionJsonTest, RefusesJsonThatIsNotAnOptionValue) {
  for (const char* text : {"null", "{}", "9223372036854775808", "[null]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(OptionFromJson(Json::parse(text)).status())) << text;
  }
}

TEST(OptionJsonTest, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return Json::parse(std::string(depth, '[') + std::string(depth, ']'));
  };
  EXPECT_TRUE(OptionFromJson(nested(limits::kOptionDepthMax)).ok());
  EXPECT_FALSE(OptionFromJson(nested(limits::kOptionDepthMax + 1)).ok());
}

}  // namespace
}  // namespace kiln
