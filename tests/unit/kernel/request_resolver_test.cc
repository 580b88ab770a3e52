#include "daemon/kernel/request_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "storage/base/limits.h"
#include "tests/testing/fake_catalog.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

class RequestResolverTest : public testing::Test {
 protected:
  RequestResolverTest() {
    request_.source.text = "module {}";
    request_.target = {"cuda", "90", 0};
  }

  CompileRequest Resolved() {
    const absl::StatusOr<CompileJobPtr> job = resolver_.Resolve(request_);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? (*job)->request : CompileRequest();
  }
  void ExpectRefused(absl::StatusCode code, const testing::Matcher<std::string>& message) {
    const absl::Status status = resolver_.Resolve(request_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(Message(status)), message);
  }
  void ExpectAccepted() { EXPECT_TRUE(resolver_.Resolve(request_).ok()); }

  const std::shared_ptr<Toolchain> triton_ = MakeTriton();
  const std::shared_ptr<Toolchain> ptxas_ = MakePtxas();
  const FakeCatalog catalog_{{triton_, ptxas_}};
  const RequestResolver resolver_{catalog_};
  CompileRequest request_;
};

TEST_F(RequestResolverTest, ANamedPtxasIsPartOfTheJobAndOfTheKey) {
  const CompileJobPtr own = *resolver_.Resolve(request_);
  EXPECT_EQ(own->ptxas, nullptr);
  request_.ptxas = "ptxas==13.0.88";
  const CompileJobPtr named = *resolver_.Resolve(request_);
  EXPECT_EQ(named->toolchain, triton_);
  EXPECT_EQ(named->ptxas, ptxas_);
  EXPECT_EQ(named->request.ptxas, ptxas_->fingerprint.Hex());
  EXPECT_NE(named->key, own->key);
}

TEST_F(RequestResolverTest, APtxasThatIsNotHereIsNotReplaced) {
  request_.ptxas = "ptxas==12.0.1";
  ExpectRefused(kFailedPrecondition, HasSubstr("ptxas"));
}

TEST_F(RequestResolverTest, ThePtxasIsTheToolchainOfPtx) {
  request_.source = {SourceKind::kPtx, ".version 8.0", ""};
  request_.target.architecture = "90a";
  request_.ptxas = "ptxas==13.0.88";
  const CompileJobPtr job = *resolver_.Resolve(request_);
  EXPECT_EQ(job->toolchain, ptxas_);
  EXPECT_EQ(job->ptxas, nullptr);
  CompileRequest by_toolchain = request_;
  by_toolchain.ptxas = "";
  by_toolchain.toolchain = "ptxas==13.0.88";
  EXPECT_EQ((*resolver_.Resolve(by_toolchain))->key, job->key);
  request_.toolchain = "ptxas==13.0.88";
  ExpectRefused(kInvalid, HasSubstr("not as both"));
}

TEST_F(RequestResolverTest, APtxasHasNothingToDoWithOtherTargetsAndKinds) {
  request_.ptxas = "ptxas==13.0.88";
  request_.target = {"hip", "gfx942", 0};
  ExpectRefused(kInvalid, HasSubstr("leave it out"));
  request_.target = {"cuda", "90", 0};
  request_.source.kind = SourceKind::kCudaCxx;
  ExpectRefused(kInvalid, HasSubstr("leave it out"));
}

TEST_F(RequestResolverTest, StagesAreThoseBehindTheSource) {
  request_.stages = {"ttgir"};
  ExpectAccepted();
  request_.source.kind = SourceKind::kTtgir;
  ExpectRefused(kInvalid, HasSubstr("from ttgir it has llir, ptx, cubin"));
  request_.stages = {"llir"};
  ExpectAccepted();
}

TEST_F(RequestResolverTest, ArchitecturesOfPtxHaveLetters) {
  request_.source = {SourceKind::kPtx, ".version 8.0", ""};
  for (const char* architecture : {"90a", "100f"}) {
    request_.target.architecture = architecture;
    ExpectAccepted();
  }
  for (const char* architecture :
       {"sm_90", "compute_90", "a", "90aa", "90b", "9 0", "-90", "90A"}) {
    request_.target.architecture = architecture;
    ExpectRefused(kInvalid, HasSubstr("compute capability"));
  }
}

class CudaRequestTest : public RequestResolverTest {
 protected:
  CudaRequestTest() { request_.source = {SourceKind::kCudaCxx, "__global__ void f() {}", ""}; }

  CompileJobPtr Resolve() {
    auto job = RequestResolver(with_nvrtc_).Resolve(request_);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : nullptr;
  }
  void ExpectRefusedHere(absl::StatusCode code, const std::string& words) {
    const absl::Status status = RequestResolver(with_nvrtc_).Resolve(request_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(Message(status)), HasSubstr(words));
  }

  const FakeCatalog with_nvrtc_{{triton_, ptxas_, MakeNvrtc()}};
};

TEST_F(CudaRequestTest, TheOrderOfHeadersDecidesNothing) {
  request_.headers = {{"b.h", "1"}, {"a.h", "2"}};
  const CompileJobPtr one = Resolve();
  request_.headers = {{"a.h", "2"}, {"b.h", "1"}};
  const CompileJobPtr other = Resolve();
  EXPECT_EQ(one->key, other->key);
  EXPECT_EQ(one->request.headers[0].name, "a.h");
  request_.headers = {{"a.h", "1"}, {"b.h", "2"}};
  EXPECT_NE(Resolve()->key, one->key);
  request_.headers.clear();
  EXPECT_NE(Resolve()->key, one->key);
}

TEST_F(CudaRequestTest, HeadersThatNoCompilerCouldTake) {
  request_.headers = {{"a.h", "1"}, {"a.h", "2"}};
  ExpectRefusedHere(kInvalid, "twice");
  request_.headers = {{"", "1"}};
  ExpectRefusedHere(kInvalid, "header's name");
  request_.headers = {{"a.h", std::string("\0", 1)}};
  ExpectRefusedHere(kInvalid, "NUL");
  request_.headers = {{"a.h", std::string(limits::kSourceBytesMax, 'x')}};
  ExpectRefusedHere(kResourceExhausted, "headers");
  request_.headers.assign(limits::kHeadersMax + 1, {"a.h", ""});
  ExpectRefusedHere(kInvalid, "headers");
  request_.headers = {{"a.h", ""}};
  request_.source = {SourceKind::kPtx, ".version 8.0", ""};
  ExpectRefusedHere(kInvalid, "CUDA C++ and OpenCL C only");
}

TEST_F(CudaRequestTest, LtoIrIsAStageOfItsOwn) {
  request_.stages = {"ltoir"};
  ExpectRefusedHere(kInvalid, "ptx, cubin");
  request_.options = {{"dlink-time-opt", {true}}};
  EXPECT_NE(Resolve(), nullptr);
  request_.stages = {"cubin"};
  ExpectRefusedHere(kInvalid, "ltoir");
}

OptionValue Nested(size_t depth) {
  OptionValue value{int64_t{1}};
  for (size_t i = 0; i < depth; ++i) value = {OptionTuple{std::move(value)}};
  return value;
}

TEST_F(RequestResolverTest, GivesTheJobItsToolchainAndKey) {
  const CompileJobPtr job = *resolver_.Resolve(request_);
  EXPECT_EQ(job->toolchain, triton_);
  EXPECT_FALSE(job->key.IsZero());
  EXPECT_EQ(job->request.target.warp_size, 32);
}

TEST_F(RequestResolverTest, MovesLaunchParametersOutOfTheOptions) {
  request_.options = {{"num_warps", {int64_t{8}}},
                      {"launch_pdl", {true}},
                      {"cluster_dims", {OptionTuple{{int64_t{2}}, {int64_t{1}}, {int64_t{1}}}}},
                      {"enable_fp_fusion", {false}}};
  const CompileRequest resolved = Resolved();
  EXPECT_EQ(resolved.launch.num_warps, 8);
  EXPECT_EQ(resolved.launch.launch_pdl, true);
  EXPECT_EQ(resolved.launch.cluster_dims, (std::array<int64_t, 3>{2, 1, 1}));
  EXPECT_EQ(resolved.options, (Options{{"enable_fp_fusion", {false}}}));
}

TEST_F(RequestResolverTest, DropsWhatEqualsTheDefault) {
  request_.launch.num_warps = 4;
  request_.options = {{"enable_fp_fusion", {true}}, {"num_stages", {int64_t{3}}}};
  const CompileRequest resolved = Resolved();
  EXPECT_EQ(resolved.launch, LaunchParameters());
  EXPECT_TRUE(resolved.options.empty());
}

TEST_F(RequestResolverTest, NegativeZeroIsNotTheDefaultZero) {
  request_.options = {{"scale", {-0.0}}};
  EXPECT_EQ(Resolved().options.size(), 1u);
  request_.options = {{"scale", {0.0}}};
  EXPECT_TRUE(Resolved().options.empty());
}

TEST_F(RequestResolverTest, RefusesALaunchParameterGivenTwice) {
  request_.launch.num_warps = 8;
  request_.options = {{"num_warps", {int64_t{8}}}};
  ExpectRefused(kInvalid, HasSubstr("give it once"));
}

TEST_F(RequestResolverTest, RefusesAnUnknownOptionAndListsThoseThereAre) {
  request_.options = {{"num_wraps", {int64_t{8}}}};
  ExpectRefused(kInvalid,
                AllOf(HasSubstr("num_wraps"), HasSubstr("num_warps"), HasSubstr("triton==3.6.0")));
  request_.options.clear();
  request_.target = {"hip", "gfx942", 0};
  request_.launch.maxnreg = 64;
  ExpectRefused(kInvalid, AllOf(HasSubstr("maxnreg"), HasSubstr("waves_per_eu")));
}

TEST_F(RequestResolverTest, RefusesOptionsOfTheWrongType) {
  request_.options = {{"enable_fp_fusion", {int64_t{1}}}};
  ExpectRefused(kInvalid, AllOf(HasSubstr("type bool,"), HasSubstr("an integer")));
  request_.options = {{"num_warps", {true}}};
  ExpectRefused(kInvalid, HasSubstr("num_warps"));
  request_.options = {{"num_warps", {std::string("8")}}};
  ExpectRefused(kInvalid, HasSubstr("a string"));
  request_.options = {{"cluster_dims", {OptionTuple{{int64_t{1}}}}}};
  ExpectRefused(kInvalid, HasSubstr("three values"));
  request_.options = {{"scale", {int64_t{2}}}};
  ExpectAccepted();
}

TEST_F(RequestResolverTest, RefusesOptionsThatNameFiles) {
  request_.options = {{"ir_override", {std::string("/etc/shadow")}}};
  ExpectRefused(kInvalid, HasSubstr("does not read"));
  request_.options = {{"extern_libs", {OptionTuple{}}}};
  ExpectRefused(kInvalid, HasSubstr("does not read"));
  for (const char* words : {"-o /etc/cron.d/x", "-ofile", "other.ptx"}) {
    request_.options = {{"ptx_options", {std::string(words)}}};
    ExpectRefused(kInvalid, HasSubstr("leave it out"));
  }
  request_.options = {{"ptx_options", {std::string("-O1 --fmad=false")}}};
  ExpectAccepted();
}

TEST_F(RequestResolverTest, RefusesLaunchesThatNoHardwareDoes) {
  for (const int64_t warps : {0, -4, 3, 6, 128}) {
    request_.launch.num_warps = warps;
    ExpectRefused(kInvalid, HasSubstr("num_warps"));
  }
  request_.launch = {};
  for (const int64_t ctas : {0, 3, 32}) {
    request_.launch.num_ctas = ctas;
    ExpectRefused(kInvalid, HasSubstr("num_ctas"));
  }
  request_.launch = {};
  for (const int64_t stages : {int64_t{-1}, limits::kNumStagesMax + 1}) {
    request_.launch.num_stages = stages;
    ExpectRefused(kInvalid, HasSubstr("num_stages"));
  }
  request_.launch = {};
  for (const int64_t registers : {int64_t{0}, limits::kMaxnregMax + 1}) {
    request_.launch.maxnreg = registers;
    ExpectRefused(kInvalid, HasSubstr("maxnreg"));
  }
  request_.launch = {};
  request_.launch.cluster_dims = {4, 4, 2};
  ExpectRefused(kInvalid, HasSubstr("cluster_dims"));
}

TEST_F(RequestResolverTest, AcceptsLaunchesUpToTheLimits) {
  request_.launch.num_warps = limits::kNumWarpsMax;
  request_.launch.num_ctas = limits::kNumCtasMax;
  request_.launch.num_stages = limits::kNumStagesMax;
  request_.launch.maxnreg = limits::kMaxnregMax;
  ExpectAccepted();
}

TEST_F(RequestResolverTest, RefusesClustersBeforeHopper) {
  request_.launch.num_ctas = 2;
  for (const char* architecture : {"80", "89"}) {
    request_.target.architecture = architecture;
    ExpectRefused(kInvalid, HasSubstr("cuda:90 or later"));
  }
  request_.target = {"hip", "gfx942", 0};
  ExpectRefused(kInvalid, HasSubstr("cuda:90 or later"));
  for (const char* architecture : {"90", "100"}) {
    request_.target = {"cuda", architecture, 0};
    ExpectAccepted();
  }
}

TEST_F(RequestResolverTest, RefusesAWarpSizeThatIsNotTheArchitectures) {
  request_.target.warp_size = 64;
  ExpectRefused(kInvalid, HasSubstr("which has 32"));
  request_.target.warp_size = 0;
  request_.options = {{"warp_size", {int64_t{64}}}};
  ExpectRefused(kInvalid, HasSubstr("which has 32"));
  request_.options.clear();
  request_.target = {"hip", "gfx942", 0};
  EXPECT_EQ(Resolved().target.warp_size, 64);
  request_.target = {"hip", "gfx1100", 0};
  EXPECT_EQ(Resolved().target.warp_size, 32);
}

TEST_F(RequestResolverTest, RefusesSourcesThatAreNoText) {
  request_.source.text = "";
  ExpectRefused(kInvalid, HasSubstr("empty"));
  request_.source.text = std::string("module\0{}", 9);
  ExpectRefused(kInvalid, HasSubstr("NUL byte at offset 6"));
  request_.source.text = "module \xff";
  ExpectRefused(kInvalid, HasSubstr("UTF-8"));
}

TEST_F(RequestResolverTest, AcceptsASourceOfTheLargestSizeAndRefusesOneByteMore) {
  request_.source.text.assign(limits::kSourceBytesMax, 'x');
  ExpectAccepted();
  request_.source.text += 'x';
  ExpectRefused(kResourceExhausted, HasSubstr("16777217"));
}

TEST_F(RequestResolverTest, RefusesUnknownTargets) {
  request_.target = {"metal", "3", 0};
  ExpectRefused(kInvalid, AllOf(HasSubstr("metal"), HasSubstr("cuda, hip")));
  request_.target = {"cuda", "sm_90", 0};
  ExpectRefused(kInvalid, HasSubstr("cuda:90"));
  request_.target = {"hip", "942", 0};
  ExpectRefused(kInvalid, HasSubstr("hip:gfx942"));
  request_.target = {"hip", "gfx../..", 0};
  ExpectRefused(kInvalid, HasSubstr("hip:gfx942"));
  for (const char* version : {"12", "1.2.0", "a.b", "1_2"}) {
    request_.target = {"spirv", version, 0};
    ExpectRefused(kInvalid, HasSubstr("spirv:1.2"));
  }
  request_.target = {"cuda", "", 0};
  ExpectRefused(kInvalid, HasSubstr("architecture: empty"));
}

TEST_F(RequestResolverTest, LeavesWhatIsNotHereToTheCatalog) {
  request_.target = {"cuda", "35", 0};
  ExpectRefused(kFailedPrecondition, HasSubstr("cuda:35"));
  request_.target = {"cuda", "90", 0};
  request_.toolchain = "triton==9.9.9";
  ExpectRefused(kFailedPrecondition, HasSubstr("no toolchain"));
  request_.toolchain = "";
  request_.source.kind = SourceKind::kCudaCxx;
  ExpectRefused(kFailedPrecondition, HasSubstr("compiles cuda"));
}

TEST_F(RequestResolverTest, RefusesUnknownStagesAndListsThoseThereAre) {
  request_.stages = {"ptx", "hsaco"};
  ExpectRefused(kInvalid, AllOf(HasSubstr("hsaco"), HasSubstr("ttgir, llir, ptx, cubin")));
  request_.stages = {"ptx", "cubin", "ptx"};
  EXPECT_EQ(Resolved().stages, (std::vector<std::string>{"ptx", "cubin"}));
}

TEST_F(RequestResolverTest, NamesAreBoundedAtTheLimit) {
  request_.source.name.assign(limits::kNameBytesMax, 'n');
  ExpectAccepted();
  request_.source.name += 'n';
  ExpectRefused(kInvalid, AllOf(HasSubstr("the kernel's name"), HasSubstr("1025")));
  request_.source.name = "\xc0\x80";
  ExpectRefused(kInvalid, HasSubstr("UTF-8"));
}

TEST_F(RequestResolverTest, OptionsAreBoundedAtTheLimit) {
  request_.options["extern_libs"] = Nested(limits::kOptionDepthMax + 1);
  ExpectRefused(kInvalid, HasSubstr("nests deeper than 8"));
  request_.options = {{"supported_fp8_dtypes", Nested(limits::kOptionDepthMax)}};
  ExpectAccepted();
  request_.options = {{"ptx_options", {std::string(limits::kOptionBytesMax, 'x')}}};
  ExpectRefused(kInvalid, HasSubstr("larger than"));
  request_.options.clear();
  for (size_t i = 0; i <= limits::kOptionsMax; ++i) {
    request_.options[fmt::format("o{}", i)] = {true};
  }
  ExpectRefused(kInvalid, HasSubstr("257 options"));
}

TEST_F(RequestResolverTest, RefusesNumbersThatAreNone) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    request_.options = {{"scale", {value}}};
    ExpectRefused(kInvalid, AllOf(HasSubstr("scale"), HasSubstr("finite")));
  }
}

TEST_F(RequestResolverTest, ParametersAreBoundedAtTheLimit) {
  request_.specialization.parameters.resize(limits::kParametersMax);
  ExpectAccepted();
  request_.specialization.parameters.emplace_back();
  ExpectRefused(kInvalid, HasSubstr("4097 parameters"));
  request_.specialization.parameters.resize(3);
  request_.specialization.parameters[2].constant = Nested(limits::kOptionDepthMax + 1);
  ExpectRefused(kInvalid, HasSubstr("parameter 2: constant: nests"));
  request_.specialization.parameters[2].constant.reset();
  request_.specialization.parameters[2].type = "\xff";
  ExpectRefused(kInvalid, HasSubstr("parameter 2: type"));
}

TEST_F(RequestResolverTest, StagesAreBoundedAtTheLimit) {
  request_.stages.assign(limits::kStagesMax, "ptx");
  ExpectAccepted();
  request_.stages.push_back("ptx");
  ExpectRefused(kInvalid, HasSubstr("17 stages"));
}

}  // namespace
}  // namespace kiln
