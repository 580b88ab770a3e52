#include "daemon/kernel/request_document.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

nlohmann::json Written(const CompileJob& job) { return nlohmann::json::parse(WriteRequest(job)); }

TEST(RequestDocument, SaysWhatTheToolchainIs) {
  const CompileJobPtr job = MakeJob("module {}");
  const nlohmann::json json = Written(*job);
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["toolchain"], "fake==1.0");
  EXPECT_EQ(json["fingerprint"], job->toolchain->fingerprint.Hex());
}

TEST(RequestDocument, ListsWhatARequestSaysBeyondDefaults) {
  CompileRequest request;
  EXPECT_EQ(ListOptions(request), "");
  request.launch.num_warps = 8;
  request.options["define-macro"] = {OptionTuple{{std::string("N=64")}, {std::string("FAST")}}};
  request.options["std"] = {std::string("c++17")};
  request.specialization.parameters = {{"x", "*fp16", {}, std::nullopt},
                                       {"BLOCK", "i32", {}, OptionValue{int64_t{128}}}};
  EXPECT_EQ(ListOptions(request), "BLOCK=128 N=64 FAST warps=8 std=c++17");
}

TEST(RequestDocument, ListsTheLargestTilesOfTritonIr) {
  CompileRequest request;
  request.source.text =
      "%0 = tt.load %p : tensor<128x64x!tt.ptr<f16>>\n"
      "%1 = tt.splat %q : !tt.ptr<f16> -> tensor<64x256x!tt.ptr<f16>>\n"
      "%2 = tt.dot %a, %b, %c : tensor<128x64xf16> * tensor<64x256xf16> -> tensor<128x256xf32>\n"
      "tensor<9 tensor<?xf32> tensor<1048576000000000000000000000000000x1xi8>";
  request.launch.num_warps = 8;
  EXPECT_EQ(ListOptions(request), "tiles=128x256,64x256 warps=8");
  request.source.text = "tensor<1024xf32> tensor<1024xi32> tensor<f32>";
  EXPECT_EQ(ListOptions(request), "tiles=1024 warps=8");
  request.source.text = "tt.return";
  EXPECT_EQ(ListOptions(request), "warps=8");
  request.source.kind = SourceKind::kPtx;
  request.source.text = "// tensor<64x64xf32>";
  EXPECT_EQ(ListOptions(request), "warps=8");
}

TEST(RequestDocument, WritesALineOfAFileOfRequests) {
  CompileJob job = *MakeJob("module {}");
  job.request.source.name = "softmax";
  job.request.ptxas = std::string(64, 'a');
  job.request.headers = {{"tile.h", "int tile;"}};
  job.request.launch.num_warps = 8;
  job.request.launch.cluster_dims = {{2, 1, 1}};
  job.request.options["fast"] = {true};
  job.request.options["eps"] = {0.5};
  job.request.options["words"] = {OptionTuple{{std::string("a")}, {int64_t{1}}}};
  job.request.specialization.parameters = {{"x", "*fp16", {{"tt.divisibility", 16}}, std::nullopt},
                                           {"n", "i32", {}, OptionValue{int64_t{128}}}};
  EXPECT_EQ(Written(job)["request"], nlohmann::json::parse(R"({
    "name": "softmax", "kind": "ttir", "target": "cuda:90:32", "toolchain": "fake==1.0",
    "ptxas": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "launch": {"num_warps": 8, "cluster_dims": [2, 1, 1]},
    "options": {"fast": true, "eps": 0.5, "words": ["a", 1]},
    "specialization": {"parameters": [
        {"name": "x", "type": "*fp16", "attributes": {"tt.divisibility": 16}},
        {"name": "n", "type": "i32", "constant": 128}]},
    "headers": {"tile.h": "int tile;"},
    "source": "module {}"})"));
}

TEST(RequestDocument, LeavesOutWhatWasNotSaid) {
  CompileJob job = *MakeJob("x");
  job.request.target.warp_size = 0;
  EXPECT_EQ(
      Written(job)["request"],
      nlohmann::json::parse(
          R"({"kind": "ttir", "target": "cuda:90", "toolchain": "fake==1.0", "source": "x"})"));
}

TEST(RequestDocument, TakesTextThatIsNotUtf8) {
  EXPECT_EQ(Written(*MakeJob("a\xff"
                             "b"))["request"]["source"],
            "a\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace kiln
