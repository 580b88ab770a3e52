#include "client/cli/requests/request_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <sstream>
#include <vector>

#include "client/cli/requests/request_json.h"
#include "storage/base/limits.h"
#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

using ::testing::HasSubstr;

class RequestFileTest : public ::testing::Test {
 protected:
  std::vector<NamedRequest> Read(const std::string& text) {
    RequestFile file(std::make_shared<std::istringstream>(text), directory_.path());
    std::vector<NamedRequest> requests;
    while (auto request = file.Next()) requests.push_back(*std::move(request));
    return requests;
  }
  NamedRequest ReadOne(const std::string& text) {
    auto requests = Read(text);
    EXPECT_EQ(requests.size(), 1u);
    return std::move(requests.front());
  }
  void ExpectWrong(const std::string& line, const std::string& words) {
    const NamedRequest named = ReadOne(line);
    EXPECT_EQ(named.request.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(Message(named.request.status())), HasSubstr(words)) << line;
    // Once: where the name does not say it already.
    EXPECT_EQ(Message(named.request.status()).substr(0, 8) == "line 1: ", named.name != "line-1");
  }

  TempDirectory directory_;
};

TEST_F(RequestFileTest, ReadsEveryField) {
  const NamedRequest named = ReadOne(
      R"({"name": "k1", "source": "module {}", "kind": "ttir", "target": "hip:gfx942:64", )"
      R"("toolchain": "triton==3.6.0", "stages": ["ttgir", "hsaco"], "priority": "autotune", )"
      R"("job": "train", "cache_policy": "refresh", "launch": {"num_warps": 8, "num_stages": 3, )"
      R"("num_ctas": 1, "maxnreg": 128, "cluster_dims": [1, 2, 3], "launch_pdl": true, )"
      R"("launch_cooperative_grid": false}, "specialization": {"parameters": [{"name": "x", )"
      R"("type": "*fp16", "attributes": {"tt.divisibility": 16}}, {"name": "BLOCK", )"
      R"("type": "constexpr", "constant": 128}]}, "options": {"waves_per_eu": 2}})");
  ASSERT_TRUE(named.request.ok()) << named.request.status();
  const v1::CompileRequest& request = *named.request;
  EXPECT_EQ(named.name, "k1");
  EXPECT_EQ(request.source().name(), "k1");
  EXPECT_EQ(request.source().text(), "module {}");
  EXPECT_EQ(request.source().kind(), v1::SOURCE_KIND_TTIR);
  EXPECT_EQ(request.target().backend(), "hip");
  EXPECT_EQ(request.target().architecture(), "gfx942");
  EXPECT_EQ(request.target().warp_size(), 64);
  EXPECT_EQ(request.toolchain(), "triton==3.6.0");
  EXPECT_THAT(request.stages(), ::testing::ElementsAre("ttgir", "hsaco"));
  EXPECT_EQ(request.priority(), v1::PRIORITY_AUTOTUNE);
  EXPECT_EQ(request.job(), "train");
  EXPECT_EQ(request.cache_policy(), v1::CACHE_POLICY_REFRESH);
  EXPECT_EQ(request.launch().num_warps(), 8);
  EXPECT_EQ(request.launch().maxnreg(), 128);
  EXPECT_THAT(request.launch().cluster_dims(), ::testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(request.launch().launch_pdl());
  EXPECT_TRUE(request.launch().has_launch_cooperative_grid());
  ASSERT_EQ(request.specialization().parameters_size(), 2);
  EXPECT_EQ(request.specialization().parameters(0).attributes().at("tt.divisibility"), 16);
  EXPECT_EQ(request.specialization().parameters(1).constant().int_value(), 128);
  EXPECT_EQ(request.options().at("waves_per_eu").int_value(), 2);
}

TEST_F(RequestFileTest, OptionsKeepTheirType) {
  const NamedRequest named = ReadOne(
      R"({"source": "", "options": {"b": true, "i": 8, "n": -1, "f": 8.0, "e": 1e-5, "s": "8", )"
      R"("t": ["a", [1, 2.5], []], "gone": null, "big": 9223372036854775807}})");
  ASSERT_TRUE(named.request.ok()) << named.request.status();
  const auto& options = named.request->options();
  EXPECT_TRUE(options.at("b").has_bool_value());
  EXPECT_EQ(options.at("i").int_value(), 8);
  EXPECT_EQ(options.at("n").int_value(), -1);
  EXPECT_TRUE(options.at("f").has_double_value());
  EXPECT_EQ(options.at("e").double_value(), 1e-5);
  EXPECT_EQ(options.at("s").string_value(), "8");
  ASSERT_EQ(options.at("t").tuple_value().items_size(), 3);
  EXPECT_EQ(options.at("t").tuple_value().items(1).tuple_value().items(1).double_value(), 2.5);
  EXPECT_TRUE(options.at("t").tuple_value().items(2).has_tuple_value());
  EXPECT_FALSE(options.contains("gone"));
  EXPECT_EQ(options.at("big").int_value(), INT64_MAX);
}

TEST_F(RequestFileTest, NullMeansAbsentForEveryField) {
  const NamedRequest named = ReadOne(
      R"({"name": null, "source": "m", "source_file": null, "kind": null, "target": null, )"
      R"("toolchain": null, "options": null, "launch": null, "stages": null, "job": null})");
  ASSERT_TRUE(named.request.ok()) << named.request.status();
  EXPECT_EQ(named.name, "line-1");
  EXPECT_FALSE(named.request->has_launch());
}

TEST_F(RequestFileTest, NamesTheMistakeOfALine) {
  ExpectWrong("nonsense", "not JSON");
  ExpectWrong("[]", "array, not an object");
  ExpectWrong("null", "null, not an object");
  ExpectWrong("{}", "'source' or 'source_file'");
  ExpectWrong(R"({"source": "m", "source_file": "f"})", "'source' or 'source_file'");
  ExpectWrong(R"({"source": "m", "sourec": 1})", "no field 'sourec'; there are cache_policy");
  ExpectWrong(R"({"source": 1})", "source is number, not a string");
  ExpectWrong(R"({"source": "m", "name": 1})", "name is number, not a string");
  ExpectWrong(R"({"source": "m", "kind": "fortran"})",
              "kind: 'fortran' is none of ttir, cuda, ptx, ttgir");
  ExpectWrong(R"({"source": "m", "target": "cuda"})", "target: 'cuda' is not a target");
  ExpectWrong(R"({"source": "m", "options": []})", "options is array, not an object");
  ExpectWrong(R"({"source": "m", "options": {"o": {}}})",
              "options.o is object, not an option value");
  ExpectWrong(R"({"source": "m", "options": {"o": [null]}})", "options.o.0 is null");
  ExpectWrong(R"({"source": "m", "options": {"o": 9223372036854775808}})", "64 bits");
  ExpectWrong(R"({"source": "m", "options": {"o": [[[[[[[[[1]]]]]]]]]}})", "nested deeper than 8");
  ExpectWrong(R"({"source": "m", "launch": {"num_warps": true}})",
              "launch.num_warps is boolean, not an integer");
  ExpectWrong(R"({"source": "m", "launch": {"warps": 4}})", "no field 'launch.warps'");
  ExpectWrong(R"({"source": "m", "stages": "ptx"})", "stages is string, not an array");
  ExpectWrong(R"({"source": "m", "priority": "high"})", "waiting-rank, autotune");
  ExpectWrong(R"({"source": "m", "cache_policy": "no"})", "use, refresh, only-if-cached");
  ExpectWrong(R"({"source": "m", "specialization": {"parameters": [{"nam": ""}]}})",
              "there is no field 'specialization.parameters.0.nam'");
  ExpectWrong(R"({"source": "m", "specialization": 7})", "specialization is number, not an object");
  ExpectWrong("{\"source\": \"\xff\"}", "not JSON");
}

TEST_F(RequestFileTest, NestedErrorsNameTheirPlace) {
  ExpectWrong(R"({"source": "m", "stages": ["ptx", 7]})", "stages.1 is number, not a string");
  ExpectWrong(R"({"source": "m", "defines": ["a", {}]})",
              "defines.1 is object, not an option value");
  ExpectWrong(R"({"source": "m", "launch": {"cluster_dims": [1, 4.0, 1]}})",
              "launch.cluster_dims.1 is 4.0, not an integer");
  ExpectWrong(R"({"source": "m", "headers": {"a.h": "", "b.h": 1}})",
              "headers.b.h is number, not a string");
  ExpectWrong(R"({"source": "m", "options": {"o": ["a", [1, null]]}})",
              "options.o.1.1 is null, not an option value");
  ExpectWrong(R"({"source": "m", "options": {"o": [[9223372036854775808]]}})",
              "options.o.0.0: 9223372036854775808 does not fit in 64 bits");
  ExpectWrong(R"({"source": "m", "specialization": {"parameters": [{"attributes": {"a": "1"}}]}})",
              "specialization.parameters.0.attributes.a is string, not an integer");
}

TEST_F(RequestFileTest, ANumberThatWouldBeRoundedIsRefused) {
  ExpectWrong(R"({"source": "m", "options": {"o": 99999999999999999999}})",
              "options.o: 99999999999999999999 does not fit in 64 bits with a sign");
  ExpectWrong(R"({"source": "m", "options": {"o": ["a", [-9223372036854775809]]}})",
              "options.o.1.0: -9223372036854775809 does not fit in 64 bits with a sign");
  ExpectWrong(R"({"source": "m", "launch": {"maxnreg": 18446744073709551616}})",
              "launch.maxnreg: 18446744073709551616 does not fit");
  ExpectWrong(R"({"source": "m", "specialization": {"parameters": [{"name": "x"}, )"
              R"({"constant": 99999999999999999999}]}})",
              "specialization.parameters.1.constant: 99999999999999999999 does not fit");
  ExpectWrong(R"({"source": "m", "options": {"a": 1, "o": 1e400}})",
              "options.o: 1e400 does not fit in a double");
  EXPECT_TRUE(ReadOne(R"({"source": "m", "options": {"o": 1e20}})").request.ok());
}

TEST_F(RequestFileTest, JsonErrorsNameTheirField) {
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    ExpectWrong(fmt::format(R"({{"source": "m", "options": {{"a": 1, "o": [2, {}]}}}})", number),
                "this is not JSON, near options.o.1: column 4");
  }
  ExpectWrong(R"({"source": "m", "options": {"o": "\ud800"}})",
              "this is not JSON, near options.o: column 4");
  ExpectWrong(R"({"source": "m", "options": {"a": 1, "\udc00": 1}})",
              "this is not JSON, near options.a: column ");
  ExpectWrong(R"({"source": "m", "options": {"a": 1},})",
              "this is not JSON, near options: column 37: ");
  ExpectWrong(R"({"source": "m", "options": {"o": [{"a": 1, "a": 2}]}})",
              "the JSON says \"a\" twice");
  ExpectWrong(R"({"source": "m", "job": "a", "job": "b"})", "the JSON says \"job\" twice");
}

TEST_F(RequestFileTest, ABadLineDoesNotStopTheOthers) {
  const auto requests = Read("{\"source\": \"a\"}\n\n  \t\nnonsense\r\n{\"source\": \"b\"}\r\n");
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_TRUE(requests[0].request.ok());
  EXPECT_EQ(requests[1].line, 4u);
  EXPECT_EQ(requests[1].name, "line-4");
  EXPECT_THAT(std::string(Message(requests[1].request.status())),
              HasSubstr("this is not JSON: column 2: "));
  EXPECT_TRUE(requests[2].request.ok());
  EXPECT_EQ(requests[2].line, 5u);
}

TEST_F(RequestFileTest, ALineOverTheLimitIsPassedOver) {
  const std::string longest(2 * limits::kSourceBytesMax + 1, 'x');
  const auto requests = Read(longest + "\n{\"source\": \"b\"}\n");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].request.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(requests[1].line, 2u);
  EXPECT_TRUE(requests[1].request.ok());
}

TEST_F(RequestFileTest, RefusesNestedRepeatedAndRoundedJson) {
  ExpectWrong(std::string(1'000'000, '['), "JSON");
  ExpectWrong(R"({"source": "m", "target": "cuda:80", "target": "cuda:90"})", "\"target\" twice");
  ExpectWrong(R"({"source": "m", "options": {"num_warps": 4, "num_warps": 8}})",
              "\"num_warps\" twice");
  ExpectWrong(R"({"source": "m", "launch": {"num_warps": 18446744073709551608}})", "64 bits");
  ExpectWrong(std::string(100'000, '[') + std::string(100'000, ']'), "nested too deep");
}

TEST_F(RequestFileTest, NulBytesInASourceStay) {
  const NamedRequest named = ReadOne(R"({"source": "a\u0000b", "name": "n\u0000m"})");
  ASSERT_TRUE(named.request.ok());
  EXPECT_EQ(named.request->source().text(), std::string("a\0b", 3));
  EXPECT_EQ(named.name, std::string("n\0m", 3));
}

TEST_F(RequestFileTest, ASourceFileIsRelativeToTheFolder) {
  WriteFileOrDie(directory_.File("k.cu"), "extern \"C\" \xff");
  const NamedRequest named = ReadOne(R"({"source_file": "k.cu"})");
  ASSERT_TRUE(named.request.ok()) << named.request.status();
  EXPECT_EQ(named.request->source().kind(), v1::SOURCE_KIND_CUDA_CXX);
  EXPECT_EQ(named.request->source().text(), "extern \"C\" \xff");
  EXPECT_TRUE(ReadOne("{\"source_file\": \"" + directory_.File("k.cu") + "\"}").request.ok());
}

TEST_F(RequestFileTest, ASourceFileThatCannotBeReadIsNamed) {
  const NamedRequest missing = ReadOne(R"({"source_file": "none.ttir"})");
  EXPECT_EQ(missing.request.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Message(missing.request.status())), HasSubstr("none.ttir"));
  ASSERT_EQ(::mkfifo(directory_.File("fifo").c_str(), 0600), 0);
  ExpectWrong(R"({"source_file": "fifo"})", "not a regular file");
  ExpectWrong(R"({"source_file": "."})", "not a regular file");
}

TEST_F(RequestFileTest, ASourceFileOverTheLimitIsReadNoFurther) {
  WriteFileOrDie(directory_.File("large"), std::string(limits::kSourceBytesMax + 100, ' '));
  const NamedRequest named = ReadOne(R"({"source_file": "large"})");
  ASSERT_TRUE(named.request.ok());
  EXPECT_EQ(named.request->source().text().size(), limits::kSourceBytesMax + 1);
}

TEST_F(RequestFileTest, OpensFilesAndSaysWhatIsWrongWithThem) {
  EXPECT_EQ(RequestFile::Open(directory_.File("none")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(RequestFile::Open(directory_.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  WriteFileOrDie(directory_.File("k"), "module {}");
  WriteFileOrDie(directory_.File("r.jsonl"), "{\"source_file\": \"k\"}");
  auto file = RequestFile::Open(directory_.File("r.jsonl"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Next()->request->source().text(), "module {}");
  EXPECT_FALSE(file->Next().has_value());
}

TEST(ContractName, IsValidAndShortEnough) {
  EXPECT_EQ(ContractName("plain"), "plain");
  EXPECT_EQ(ContractName("a\xff"), "a\xEF\xBF\xBD");
  std::string umlauts;
  for (int i = 0; i < 1000; ++i) umlauts += "\xC3\xA4";
  EXPECT_EQ(ContractName(umlauts).size(), limits::kNameBytesMax);
  EXPECT_EQ(ContractName("x" + umlauts).size(), limits::kNameBytesMax - 1);
}

}  // namespace
}  // namespace kiln::cli
