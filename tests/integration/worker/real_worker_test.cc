// The worker pool with the real Triton.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <map>

#include "daemon/chain/pooled_provider.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/real_toolchains.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kCopy[] = R"(module {
  tt.func public @copy(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %a = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %b = tt.addptr %a, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %c = tt.load %b : tensor<128x!tt.ptr<f32>>
    %e = tt.splat %arg1 : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %f = tt.addptr %e, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %f, %c : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
)";

// A square matrix times itself, N by N: its operands fill shared memory, its accumulator registers.
std::string Square(int n) {
  std::string text = R"(module {
  tt.func public @square(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %zero = arith.constant dense<0.000000e+00> : tensor<N0xN0xf32>
    %row = tt.make_range {end = N0 : i32, start = 0 : i32} : tensor<N0xi32>
    %rows = tt.expand_dims %row {axis = 1 : i32} : tensor<N0xi32> -> tensor<N0x1xi32>
    %cols = tt.expand_dims %row {axis = 0 : i32} : tensor<N0xi32> -> tensor<1xN0xi32>
    %rb = tt.broadcast %rows : tensor<N0x1xi32> -> tensor<N0xN0xi32>
    %cb = tt.broadcast %cols : tensor<1xN0xi32> -> tensor<N0xN0xi32>
    %n = arith.constant dense<N0> : tensor<N0xN0xi32>
    %ro = arith.muli %rb, %n : tensor<N0xN0xi32>
    %off = arith.addi %ro, %cb : tensor<N0xN0xi32>
    %xs = tt.splat %x : !tt.ptr<f16> -> tensor<N0xN0x!tt.ptr<f16>>
    %xp = tt.addptr %xs, %off : tensor<N0xN0x!tt.ptr<f16>>, tensor<N0xN0xi32>
    %a = tt.load %xp : tensor<N0xN0x!tt.ptr<f16>>
    %d = tt.dot %a, %a, %zero : tensor<N0xN0xf16> * tensor<N0xN0xf16> -> tensor<N0xN0xf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<N0xN0x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %off : tensor<N0xN0x!tt.ptr<f32>>, tensor<N0xN0xi32>
    tt.store %yp, %d : tensor<N0xN0x!tt.ptr<f32>>
    tt.return
  }
}
)";
  for (size_t at = text.find("N0"); at != std::string::npos; at = text.find("N0", at)) {
    text.replace(at, 2, std::to_string(n));
  }
  return text;
}

struct Case {
  std::string source;
  Target target{"cuda", "90", 0};
  LaunchParameters launch;
  Options options;
};

class RealWorkerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TempDirectory();
    WorkerPoolOptions options;
    options.slots = 2;
    options.eager = true;
    options.work_directory = directory_->File("work");
    options.zygote = TritonZygoteCommand(*RealTriton(), WorkerScript(), directory_->File("zygote"),
                                         InstalledJemalloc());
    options.zygote.jail = std::make_shared<Jail>(Jail::Mode::kOn, JailSupport::OfThisKernel());
    provider_ = new PooledProvider(RealTriton(), options, SystemClock());
  }

  static void TearDownTestSuite() {
    delete provider_;
    delete directory_;
    EXPECT_THAT(LivingDescendants(), IsEmpty());
  }

  static std::future<absl::StatusOr<CompileResult>> Submit(const Case& wanted,
                                                           CallContext context = {}) {
    auto job = std::make_shared<CompileJob>();
    job->request.source.text = wanted.source;
    job->request.target = wanted.target;
    job->request.launch = wanted.launch;
    job->request.options = wanted.options;
    job->toolchain = RealTriton();
    auto promise = std::make_shared<std::promise<absl::StatusOr<CompileResult>>>();
    provider_->Compile(std::move(context), job,
                       [promise](auto result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }

  static std::shared_ptr<const Artifact> Compile(const Case& wanted) {
    const auto result = Submit(wanted).get();
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return nullptr;
    if (result->failure() != nullptr)
      ADD_FAILURE() << result->failure()->message << "\n" << result->failure()->output;
    const auto* artifact = std::get_if<std::shared_ptr<const Artifact>>(&result->value);
    return artifact == nullptr ? nullptr : *artifact;
  }

  static CompileFailure Fail(const Case& wanted) {
    const auto result = Submit(wanted).get();
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok() || result->failure() == nullptr) {
      ADD_FAILURE() << "it compiled";
      return {};
    }
    return *result->failure();
  }

  static TempDirectory* directory_;
  static PooledProvider* provider_;
};

TempDirectory* RealWorkerTest::directory_ = nullptr;
PooledProvider* RealWorkerTest::provider_ = nullptr;

std::vector<std::string> StageNames(const Artifact& artifact) {
  std::vector<std::string> names;
  for (const StageBlob& stage : artifact.stages) names.push_back(stage.stage);
  return names;
}

TEST_F(RealWorkerTest, CompilesForCuda) {
  for (const char* architecture : {"80", "90", "100"}) {
    const auto artifact = Compile({kCopy, {"cuda", architecture, 0}, {}, {}});
    ASSERT_NE(artifact, nullptr);
    EXPECT_THAT(StageNames(*artifact), ElementsAre("ttgir", "llir", "ptx", "cubin"));
    EXPECT_THAT(std::string(artifact->stages[2].blob.bytes()),
                HasSubstr(fmt::format(".target sm_{}", architecture)));
    EXPECT_EQ(artifact->stages[3].blob.bytes().substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_EQ(artifact->metadata.name, "copy");
    EXPECT_EQ(artifact->metadata.warp_size, 32);
    EXPECT_EQ(artifact->metadata.hidden_pointers, 2);
    EXPECT_TRUE(artifact->metadata.registers.has_value());
    EXPECT_EQ(artifact->metadata.spill_bytes, 0);
    EXPECT_THAT(artifact->provenance.assembler, HasSubstr("ptxas"));
  }
}

TEST_F(RealWorkerTest, CompilesForHip) {
  for (const char* architecture : {"gfx90a", "gfx942", "gfx950"}) {
    const auto artifact = Compile({kCopy, {"hip", architecture, 64}, {}, {}});
    ASSERT_NE(artifact, nullptr);
    EXPECT_THAT(StageNames(*artifact), ElementsAre("ttgir", "llir", "amdgcn", "hsaco"));
    EXPECT_EQ(artifact->stages[3].blob.bytes().substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_EQ(artifact->metadata.warp_size, 64);
    EXPECT_TRUE(artifact->metadata.registers.has_value());
  }
}

TEST_F(RealWorkerTest, ParametersHaveTheNamesOfTheSource) {
  const auto artifact = Compile({kCopy, {"cuda", "90", 0}, {}, {}});
  ASSERT_NE(artifact, nullptr);
  ASSERT_EQ(artifact->metadata.parameters.size(), 2u);
  EXPECT_EQ(artifact->metadata.parameters[0].name, "x");
  EXPECT_EQ(artifact->metadata.parameters[0].type, "*f32");
  EXPECT_EQ(artifact->metadata.parameters[1].name, "");
}

TEST_F(RealWorkerTest, EqualTextGivesEqualBytesInEveryWorker) {
  std::vector<std::future<absl::StatusOr<CompileResult>>> results;
  for (int i = 0; i < 6; ++i) results.push_back(Submit({Square(64), {"cuda", "90", 0}, {}, {}}));
  std::map<std::string, Digest> digests;
  for (auto& future : results) {
    const auto result = future.get();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_NE(result->artifact(), nullptr);
    for (const StageBlob& stage : result->artifact()->stages) {
      EXPECT_EQ(digests.emplace(stage.stage, stage.blob.digest()).first->second,
                stage.blob.digest())
          << stage.stage;
    }
  }
}

TEST_F(RealWorkerTest, OptionsReachTheCompiler) {
  Case wanted{kCopy, {"cuda", "90", 0}, {}, {}};
  wanted.launch.num_warps = 8;
  wanted.options["enable_fp_fusion"] = {false};
  const auto artifact = Compile(wanted);
  ASSERT_NE(artifact, nullptr);
  EXPECT_EQ(artifact->metadata.num_warps, 8);
  EXPECT_THAT(artifact->metadata.toolchain_metadata,
              AllOf(HasSubstr(R"("num_warps": 8)"), HasSubstr(R"("enable_fp_fusion": false)")));
}

TEST_F(RealWorkerTest, BadSourcesSayWhatIsWrongAndWhere) {
  const std::map<std::string, std::string> cases = {
      {"", "empty"},
      {"  \n ", "empty"},
      {std::string("module {\n\0}", 11), "NUL byte"},
      {"module \xff", "not UTF-8"},
      {"hello world", "custom op 'hello' is unknown"},
      {std::string(kCopy).substr(0, sizeof(kCopy) / 2), "expected"},
      {"module { func.func @a() { return } }", "Dialect `func' not found"},
      {"module { tt.func public @a() { tt.reduce_max tt.return } }",
       "custom op 'tt.reduce_max' is unknown"},
      {"module { }", "has none"},
      {"module { tt.func private @a() { tt.return } }", "has none"},
      {"module { tt.func public @a() { tt.return } tt.func public @b() { tt.return } }",
       "has 2 (a, b)"},
      {"module { tt.func public @\"../../etc/passwd\"() { tt.return } }", "not an identifier"},
      {"module attributes {\"ttg.num-warps\" = 4 : i32} { tt.func public @a() { tt.return } }",
       "TTGIR"},
  };
  for (const auto& [source, words] : cases) {
    const CompileFailure failure = Fail({source, {"cuda", "90", 0}, {}, {}});
    EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument) << source;
    EXPECT_EQ(failure.stage, "parse") << source;
    EXPECT_THAT(failure.message, HasSubstr(words)) << source;
    EXPECT_TRUE(failure.deterministic);
  }
}

TEST_F(RealWorkerTest, AParseErrorHasItsPlace) {
  std::string source = kCopy;
  source.replace(source.find("tt.make_range"), 13, "tt.make_ranger");
  const CompileFailure failure = Fail({source, {"cuda", "90", 0}, {}, {}});
  EXPECT_EQ(failure.line, 3);
  EXPECT_EQ(failure.column, 10);
  EXPECT_THAT(failure.output, HasSubstr("kernel.ttir"));
}

TEST_F(RealWorkerTest, ASourceThatIsNoTtirIsToldWhatWouldBe) {
  EXPECT_THAT(Fail({"hello world", {"cuda", "90", 0}, {}, {}}).message,
              HasSubstr("send the module as it is after Triton's ttir stage"));
}

// Versions differ in syntax too, so a mistake may be another version's right words.
TEST_F(RealWorkerTest, ParseErrorSuggestsTheToolchainThatPrintedTheText) {
  for (const std::string words : {"tt.reduce_max", "%0 = triton_gpu.foo : i32",
                                  "%0 = tt.undef : !tt.tensordescr<f32>", "tt.return %x"}) {
    const CompileFailure failure = Fail(
        {"module { tt.func public @a() { " + words + " tt.return } }", {"cuda", "90", 0}, {}, {}});
    EXPECT_THAT(
        failure.message,
        AllOf(HasSubstr("printed by another version of Triton? This is " + RealTriton()->version),
              HasSubstr("name the toolchain that printed it, such as triton==")))
        << words;
  }
}

TEST_F(RealWorkerTest, PassFailureIsAnInvalidArgument) {
  // It parses, but nothing can be returned to a launcher.
  const CompileFailure failure =
      Fail({"module { tt.func public @k(%x: i32) -> i32 {\n tt.return %x : i32 } }",
            {"cuda", "90", 0},
            {},
            {}});
  EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(failure.stage, "llir");
  EXPECT_EQ(failure.line, 2);
  EXPECT_THAT(failure.message, HasSubstr("tt.return"));
  EXPECT_TRUE(failure.deterministic);
}

TEST_F(RealWorkerTest, BadOptionsSayWhatIsWrong) {
  const auto fail = [](const std::string& name, OptionValue value,
                       Target target = {"cuda", "90", 0}) {
    Case wanted{kCopy, target, {}, {}};
    wanted.options[name] = std::move(value);
    const CompileFailure failure = Fail(wanted);
    EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(failure.stage, "options") << name;
    return failure.message;
  };
  EXPECT_THAT(fail("num_warps", {int64_t{3}}), HasSubstr("power of 2"));
  EXPECT_THAT(fail("num_ctas", {int64_t{2}}, {"cuda", "80", 0}), HasSubstr("SM90"));
  EXPECT_THAT(fail("nwarps", {int64_t{4}}), HasSubstr("num_warps"));
  EXPECT_THAT(fail("arch", {std::string("sm80")}), HasSubstr("sm90"));
  EXPECT_THAT(fail("warp_size", {int64_t{32}}, {"hip", "gfx942", 0}), HasSubstr("64"));
}

// The error comes when it is loaded, as with Triton's own compile.
TEST_F(RealWorkerTest, CompilesAKernelTooLargeForABlock) {
  const auto shared = Compile({Square(256), {"hip", "gfx942", 0}, {}, {}});
  ASSERT_NE(shared, nullptr);
  EXPECT_GT(shared->metadata.shared_bytes, 64 << 10);

  Case threads{kCopy, {"cuda", "90", 0}, {}, {}};
  threads.launch.num_warps = 64;
  const auto copy = Compile(threads);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->metadata.num_warps, 64);
}

TEST_F(RealWorkerTest, MoreRegistersThanAllowedAreResourceExhausted) {
  Case registers{Square(128), {"cuda", "90", 0}, {}, {}};
  registers.launch.maxnreg = 24;
  const CompileFailure failure = Fail(registers);
  EXPECT_EQ(failure.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(failure.stage, "cubin");
  EXPECT_THAT(failure.message, HasSubstr("registers"));
}

TEST_F(RealWorkerTest, InlineAssemblyThatPtxasRefuses) {
  const CompileFailure failure = Fail({R"(module { tt.func public @a(%x: !tt.ptr<f32>) {
    %c = arith.constant dense<1> : tensor<128xi32>
    %0 = tt.elementwise_inline_asm "bogus.instr $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, pure = false} %c : tensor<128xi32> -> tensor<128xi32>
    tt.return } })",
                                       {"cuda", "90", 0},
                                       {},
                                       {}});
  EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(failure.stage, "cubin");
  EXPECT_THAT(failure.message, HasSubstr("ptxas"));
}

TEST_F(RealWorkerTest, APtxVersionThatPtxasDoesNotKnow) {
  Case wanted{kCopy, {"cuda", "90", 0}, {}, {}};
  wanted.options["ptx_version"] = {int64_t{99}};
  const CompileFailure failure = Fail(wanted);
  EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(failure.stage, "cubin");
  EXPECT_THAT(failure.message, HasSubstr("Unsupported .version 9.9"));
}

TEST_F(RealWorkerTest, ADeadlineKillsCompilerAndAssembler) {
  CallContext context;
  context.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  const auto result = Submit({Square(256), {"cuda", "90", 0}, {}, {}}, context).get();
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
  EXPECT_NE(Compile({kCopy, {"cuda", "90", 0}, {}, {}}), nullptr);
}

TEST_F(RealWorkerTest, EverythingThatIsKilledIsReplaced) {
  ASSERT_NE(Compile({kCopy, {"cuda", "90", 0}, {}, {}}), nullptr);
  for (const pid_t pid : LivingDescendants()) kill(pid, SIGKILL);
  EXPECT_NE(Compile({kCopy, {"cuda", "90", 0}, {}, {}}), nullptr);
}

TEST(RealToolchainTest, DescribesItself) {
  const auto triton = RealTriton();
  EXPECT_EQ(triton->name, "triton");
  EXPECT_THAT(triton->assembler, AllOf(HasSubstr("ptxas "), HasSubstr("lld")));
  const BackendDescription* cuda = triton->FindBackend("cuda");
  ASSERT_NE(cuda, nullptr);
  EXPECT_THAT(cuda->architectures, AllOf(Contains("80"), Contains("90"), Contains("100")));
  EXPECT_THAT(cuda->stages, ElementsAre("ttgir", "llir", "ptx", "cubin"));
  EXPECT_EQ(cuda->options.at("num_warps").type, OptionType::kInteger);
  EXPECT_EQ(cuda->options.at("num_warps").default_value, OptionValue{int64_t{4}});
  EXPECT_EQ(cuda->options.at("enable_fp_fusion").default_value, OptionValue{true});
  // Defaults that name a path or depend on the architecture must not look like constants.
  EXPECT_EQ(cuda->options.at("extern_libs").default_value, std::nullopt);
  EXPECT_EQ(cuda->options.at("supported_fp8_dtypes").default_value, std::nullopt);
  EXPECT_EQ(cuda->options.at("arch").default_value, std::nullopt);
  const BackendDescription* hip = triton->FindBackend("hip");
  ASSERT_NE(hip, nullptr);
  EXPECT_THAT(hip->architectures,
              AllOf(Contains("gfx90a"), Contains("gfx942"), Contains("gfx950")));
  EXPECT_EQ(hip->options.at("kpack").default_value, OptionValue{int64_t{1}});
}

TEST(RealToolchainTest, IsFoundByNameByFingerprintAndByDefault) {
  const auto triton = RealTriton();
  for (const std::string& selector : {std::string(), triton->Name(), triton->fingerprint.Hex(),
                                      "sha256:" + triton->fingerprint.Hex()}) {
    const auto found = RealToolchains().Find(selector, SourceKind::kTtir, {"cuda", "90", 0});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, triton);
  }
}

}  // namespace
}  // namespace kiln
