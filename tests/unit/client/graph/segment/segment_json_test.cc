#include "client/graph/segment/segment_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kiln::graph {
namespace {

constexpr std::string_view kSegment = R"({"kiln_segment": 1, "name": "gated",
"symbols": [
  {"name":"batch","min":1,"max":4096,"typical":64,"multiple_of":2},
  {"name":"heads","min":0,"max":8,"typical":8,"multiple_of":1}
],
"values": [
  {"name":"x","type":"f16","shape":["batch",784],"strides":[1024,1],"role":"input"},
  {"name":"w","type":"i8","shape":[3],"role":"constant","data":"AQL/"},
  {"name":"t","type":"f32","shape":["4*batch*heads + 1"]},
  {"name":"y","type":"bf16","shape":[],"role":"output"},
  {"name":"rows","role":"output"}
],
"operations": [
  {"op":"Cast","inputs":["x"],"outputs":["t"],"attributes":{"axes":[1,-2],"scales":[0.5,2.0],"to":"f32"}},
  {"op":"Clip","inputs":["t",null,"w"],"outputs":["y"],"attributes":{"alpha":0.25,"keepdims":1}},
  {"op":"my.Rows","inputs":["y"],"outputs":["rows"],"kept_because":"it counts"}
]
}
)";

TEST(SegmentJsonTest, WhatIsReadIsWrittenAgain) {
  const auto segment = ReadSegment(kSegment);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(WriteSegment(*segment), kSegment);
}

TEST(SegmentJsonTest, EachFieldArrives) {
  const auto segment = ReadSegment(kSegment);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(segment->symbols[0].multiple_of, 2);
  EXPECT_EQ(segment->values[0].shape, (std::vector<Size>{Size::Of(0), 784}));
  EXPECT_EQ(*segment->values[0].strides, (std::vector<Size>{1024, 1}));
  EXPECT_TRUE(segment->values[1].is_input && segment->values[1].is_constant);
  EXPECT_EQ(*segment->values[1].bytes, std::string("\x01\x02\xff"));
  EXPECT_EQ(segment->values[2].shape[0], Size::Of(0) * Size::Of(1) * Size(4) + Size(1));
  EXPECT_TRUE(segment->values[3].is_output);
  EXPECT_EQ(segment->operations[1].inputs, (std::vector<int>{2, kOmitted, 1}));
  EXPECT_TRUE(segment->values[4].is_opaque);
  EXPECT_EQ(segment->operations[2].kept_because, "it counts");
  EXPECT_EQ(std::get<double>(segment->operations[1].attributes.at("alpha")), 0.25);
}

struct BadCase {
  std::string what;  // replaced in kSegment
  std::string by;
  std::string message;
};

class BadSegmentTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadSegmentTest, IsRefusedByName) {
  std::string text(kSegment);
  text.replace(text.find(GetParam().what), GetParam().what.size(), GetParam().by);
  const auto segment = ReadSegment(text);
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(std::string(segment.status().message()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadSegmentTest,
    testing::Values(
        BadCase{"{\"kiln_segment\"", "[\"kiln_segment\"", "it is not JSON"},
        BadCase{"\"kiln_segment\": 1", "\"kiln_segment\": 2",
                "kiln_segment: this Kiln reads version 1, not 2"},
        BadCase{"\"min\":1,", "\"min\":5000,", "symbols[0]: min is larger than max"},
        BadCase{"\"min\":1,", "\"min\":-1,", "symbols[0]: min is negative"},
        BadCase{"\"typical\":64", "\"typical\":5000",
                "symbols[0]: typical lies outside of min and max"},
        BadCase{"\"name\":\"heads\"", "\"name\":\"2 heads\"",
                "symbols[1].name: a name has letters, digits and _ alone"},
        BadCase{"\"f16\"", "\"f17\"", "values[0].type: \"f17\" is no type"},
        BadCase{"[\"batch\",784]", "[\"batsh\",784]",
                "values[0].shape[0]: \"batsh\": no symbol has the name batsh"},
        BadCase{
            "4*batch*heads + 1", "4*(batch)",
            "values[2].shape[0]: \"4*(batch)\": it is no sum of products of integers and symbols"},
        BadCase{"4*batch*heads + 1", "9223372036854775807*2",
                "values[2].shape[0]: \"9223372036854775807*2\": it overflows"},
        BadCase{"[1024,1]", "[1]", "values[0].strides: there is one stride for each dimension"},
        BadCase{"\"role\":\"output\"", "\"role\":\"result\"",
                "values[3].role: it is input, constant, output or intermediate"},
        BadCase{"AQL/", "A", "values[1].data: a string in Base64 is expected"},
        BadCase{"\"role\":\"constant\"", "\"role\":\"input\"",
                "values[1].data: constants alone have data"},
        BadCase{"\"name\":\"w\"", "\"name\":\"x\"", "values[1]: another value has the same name"},
        BadCase{"\"inputs\":[\"x\"]", "\"inputs\":[\"z\"]",
                "operations[0].inputs[0]: no value has the name \"z\""},
        BadCase{"\"inputs\":[\"x\"]", "\"inputs\":\"x\"",
                "operations[0].inputs: an array is expected"},
        BadCase{"[0.5,2.0]", "[0.5,\"2\"]",
                "operations[0].attributes.scales: an array of numbers is expected"},
        BadCase{"\"op\":\"Cast\",", "", "operations[0]: \"op\" is missing"},
        BadCase{"\"op\":\"Cast\"", "\"operator\":\"Cast\"",
                "operations[0]: it has no field \"operator\"; there are op, inputs, outputs, "
                "attributes, kept_because"}));

TEST(SegmentJsonTest, TenThousandOperationsAreRead) {
  Segment segment;
  segment.name = "chain";
  segment.values.push_back({.name = "v0", .shape = {16}, .is_input = true});
  for (int i = 0; i < 10'000; ++i) {
    segment.values.push_back({.name = "v" + std::to_string(i + 1), .shape = {16}});
    segment.operations.push_back({"Neg", {i}, {i + 1}, {}});
  }
  const auto again = ReadSegment(WriteSegment(segment));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->operations.size(), 10'000u);
  EXPECT_EQ(again->operations.back().outputs, std::vector<int>{10'000});
}

}  // namespace
}  // namespace kiln::graph
