#include "client/cli/requests/request_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln::cli {
namespace {

using ::testing::HasSubstr;

// What one --option turns into.
v1::OptionValue ValueOf(const std::string& text) {
  v1::CompileRequest request;
  const absl::Status status = SetOptions(std::vector<std::string>{"o=" + text}, request);
  EXPECT_TRUE(status.ok()) << status;
  return request.options().at("o");
}

TEST(Assignments, ReadsJsonValues) {
  EXPECT_EQ(ValueOf("8").int_value(), 8);
  EXPECT_TRUE(ValueOf("8.0").has_double_value());
  EXPECT_EQ(ValueOf("1e-5").double_value(), 1e-5);
  EXPECT_TRUE(ValueOf("true").bool_value());
  EXPECT_EQ(ValueOf("[1,\"a\"]").tuple_value().items_size(), 2);
  EXPECT_EQ(ValueOf("\"8\"").string_value(), "8");
}

TEST(Assignments, ReadsOtherValuesAsStrings) {
  for (const std::string text : {"tf32", "True", "0x10", "", "a=b", "{\"a\":1}", "[1", "-"}) {
    EXPECT_EQ(ValueOf(text).string_value(), text) << text;
    EXPECT_TRUE(ValueOf(text).has_string_value()) << text;
  }
}

TEST(Assignments, NullMeansAbsent) {
  v1::CompileRequest request;
  EXPECT_TRUE(SetOptions(std::vector<std::string>{"maxnreg=null"}, request).ok());
  EXPECT_TRUE(request.options().empty());
}

TEST(Assignments, NamesTheMistakeOfAnAssignment) {
  const auto wrong = [](std::vector<std::string> assignments) {
    v1::CompileRequest request;
    const absl::Status status = SetOptions(assignments, request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(Message(status));
  };
  EXPECT_THAT(wrong({"num_warps"}), HasSubstr("'num_warps' is not name=value"));
  EXPECT_THAT(wrong({"use_fast_math"}), HasSubstr("a flag takes true, as use_fast_math=true"));
  EXPECT_THAT(wrong({"=8"}), HasSubstr("not name=value"));
  EXPECT_THAT(wrong({"a=1", "a=2"}), HasSubstr("a is given twice"));
  EXPECT_THAT(wrong({"a=18446744073709551615"}),
              HasSubstr("--option a: 18446744073709551615 does not fit"));
  EXPECT_THAT(wrong({"a=99999999999999999999"}),
              HasSubstr("--option a: 99999999999999999999 does not fit in 64 bits with a sign"));
  EXPECT_THAT(wrong({"a=-99999999999999999999"}), HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(wrong({"a=[1,99999999999999999999]"}),
              HasSubstr("--option a: 1: 99999999999999999999 does not fit in 64 bits"));
  EXPECT_THAT(wrong({"a=1e400"}), HasSubstr("--option a: 1e400 does not fit in a double"));
}

}  // namespace
}  // namespace kiln::cli
