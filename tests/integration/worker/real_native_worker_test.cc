// The worker pool with kiln-worker and a real ptxas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "daemon/chain/pooled_provider.h"
#include "daemon/kernel/ptx_options.h"
#include "daemon/process/output_capture.h"
#include "daemon/process/spawn.h"
#include "daemon/sandbox/enter_jail.h"
#include "daemon/worker/native/ptxas_compiler.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/real_toolchains.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two kernels, with lines, shared memory, a file that is not there and one that is the source
// itself.
constexpr char kTwoKernels[] = R"(.version 8.0
.target sm_80
.address_size 64
.file 1 "not/there.py"
.file 2 "kernel.ptx"
.visible .entry add(
	.param .u64 .ptr .global .align 16 add_param_0,
	.param .f32 add_param_1
)
.reqntid 128, 1, 1
{
	.reg .b64 %rd<3>;
	.reg .f32 %f<4>;
	.shared .align 4 .b8 staged[256];
	.loc 1 3 0
	ld.param.u64 %rd1, [add_param_0];
	ld.param.f32 %f1, [add_param_1];
	st.shared.f32 [staged], %f1;
	.loc 2 4 0
	ld.global.f32 %f2, [%rd1];
	fma.rn.f32 %f3, %f2, %f1, %f1;
	st.global.f32 [%rd1], %f3;
	ret;
}
.visible .entry nothing(.param .u32 p) { ret; }
)";

// A chain of branches that keeps ptxas busy for minutes.
std::string EndlessPtx() {
  constexpr int kBlocks = 40'000;
  std::string text =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k(.param .u64 p) {\n.reg .pred %p; .reg .b64 %rd1;\n"
      ".reg .b32 %r<9>;\nld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\n";
  for (int i = 0; i < kBlocks; ++i) {
    text += fmt::format(
        "L{0}:\nsetp.eq.u32 %p, %r1, {0};\nadd.u32 %r1, %r1, %r{1};\n"
        "@%p bra L{2};\n",
        i, i % 8 + 1, (i * 7919L) % kBlocks);
  }
  return text + "st.global.u32 [%rd1], %r1;\nret;\n}\n";
}

struct Case {
  std::string source = kTwoKernels;
  std::string architecture = "90";
  Options options = {};
};

class NativeWorkerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TempDirectory();
    provider_ = new PooledProvider(RealPtxas(), PoolOptions(), SystemClock());
  }
  static void TearDownTestSuite() {
    delete provider_;
    delete directory_;
    EXPECT_THAT(LivingDescendants(), IsEmpty());
  }

  static WorkerPoolOptions PoolOptions() {
    WorkerPoolOptions options;
    options.slots = 2;
    options.work_directory = directory_->File("work");
    options.zygote = NativeZygoteCommand(*RealPtxas(), NativeWorker(), directory_->File("zygote"),
                                         InstalledJemalloc());
    options.zygote.jail = std::make_shared<Jail>(Jail::Mode::kOn, JailSupport::OfThisKernel());
    return options;
  }

  static absl::StatusOr<CompileResult> Run(PooledProvider& provider, const Case& wanted,
                                           CallContext context = {}) {
    auto job = std::make_shared<CompileJob>();
    job->request.source.kind = SourceKind::kPtx;
    job->request.source.text = wanted.source;
    job->request.target = {"cuda", wanted.architecture, 32};
    job->request.options = wanted.options;
    job->toolchain = RealPtxas();
    std::promise<absl::StatusOr<CompileResult>> promise;
    provider.Compile(std::move(context), job,
                     [&promise](auto result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }

  static std::shared_ptr<const Artifact> Compile(const Case& wanted) {
    const auto result = Run(*provider_, wanted);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return nullptr;
    if (result->failure() != nullptr)
      ADD_FAILURE() << result->failure()->message << "\n" << result->failure()->output;
    const auto* artifact = std::get_if<std::shared_ptr<const Artifact>>(&result->value);
    return artifact == nullptr ? nullptr : *artifact;
  }

  static CompileFailure Fail(const Case& wanted) {
    const auto result = Run(*provider_, wanted);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok() || result->failure() == nullptr) {
      ADD_FAILURE() << "it compiled";
      return {};
    }
    return *result->failure();
  }

  // What ptxas gives when a person runs it on the same text with these arguments, where it finds no
  // file with stat.
  static std::string RunByHand(const std::string& text, std::vector<std::string> arguments) {
    const TempDirectory directory;
    WriteFileOrDie(directory.File("kernel.ptx"), text);
    SpawnCommand command;
    command.arguments = {RealPtxas()->directory, "-v"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.arguments.insert(command.arguments.end(), {"kernel.ptx", "-o", "by-hand.cubin"});
    command.directory = directory.path();
    // A thread's filter is its own, and that of what it starts.
    std::thread([&command] {
      EXPECT_TRUE(RefuseStat());
      const auto output = OutputCapture::Create();
      const auto pid = Spawn(command, output->fd(), -1);
      EXPECT_TRUE(pid.ok()) << pid.status();
      int wait_status = -1;
      EXPECT_TRUE(ReapChild(*pid, std::chrono::seconds(60), &wait_status));
      EXPECT_EQ(wait_status, 0) << output->Tail(1000);
    }).join();
    return ReadFileOrDie(directory.File("by-hand.cubin"));
  }

  static TempDirectory* directory_;
  static PooledProvider* provider_;
};

TempDirectory* NativeWorkerTest::directory_ = nullptr;
PooledProvider* NativeWorkerTest::provider_ = nullptr;

TEST_F(NativeWorkerTest, TheSameBytesAsPtxasByHand) {
  struct Golden {
    std::string architecture;
    Options options;
    std::vector<std::string> arguments;
  };
  const std::vector<Golden> cases = {
      {"80", {}, {"--gpu-name=sm_80"}},
      {"90", {}, {"--gpu-name=sm_90"}},
      {"90a", {{"generate-line-info", {true}}}, {"--gpu-name=sm_90a", "--generate-line-info"}},
      {"90",
       {{"fmad", {false}}, {"opt-level", {int64_t{1}}}, {"maxnreg", {int64_t{32}}}},
       {"--gpu-name=sm_90", "--fmad=false", "--maxrregcount=32", "--opt-level=1"}},
      {"90", {{"device-debug", {true}}}, {"--gpu-name=sm_90", "--device-debug"}},
  };
  for (const Golden& golden : cases) {
    const auto artifact = Compile({kTwoKernels, golden.architecture, golden.options});
    ASSERT_NE(artifact, nullptr);
    ASSERT_EQ(artifact->stages.size(), 1u);
    EXPECT_EQ(artifact->stages[0].stage, "cubin");
    EXPECT_TRUE(artifact->stages[0].blob.bytes() == RunByHand(kTwoKernels, golden.arguments))
        << golden.arguments.back();
  }
}

TEST_F(NativeWorkerTest, MetadataSaysWhatPtxasAndThePtxSay) {
  const auto artifact = Compile({});
  ASSERT_NE(artifact, nullptr);
  const KernelMetadata& metadata = artifact->metadata;
  EXPECT_EQ(metadata.name, "add");
  EXPECT_GT(metadata.registers.value_or(0), 0);
  EXPECT_EQ(metadata.spill_bytes, 0);
  EXPECT_EQ(metadata.shared_bytes, 256);
  EXPECT_EQ(metadata.num_warps, 4);
  EXPECT_EQ(metadata.warp_size, 32);
  EXPECT_EQ(metadata.hidden_pointers, 0);
  ASSERT_EQ(metadata.parameters.size(), 2u);
  EXPECT_EQ(metadata.parameters[0].name, "add_param_0");
  EXPECT_EQ(metadata.parameters[0].type, "u64");
  EXPECT_EQ(metadata.parameters[1].type, "f32");
  const auto described = nlohmann::json::parse(metadata.toolchain_metadata);
  EXPECT_EQ(described["entry_count"], 2);
  EXPECT_EQ(described["entries"][1]["name"], "nothing");
  EXPECT_EQ(artifact->provenance.assembler, "ptxas " + RealPtxas()->version);
  EXPECT_EQ(artifact->provenance.toolchain, "ptxas==" + RealPtxas()->version);
}

TEST_F(NativeWorkerTest, OptionEntryChoosesAmongSeveralKernels) {
  const auto artifact = Compile({kTwoKernels, "90", {{"entry", {std::string("nothing")}}}});
  ASSERT_NE(artifact, nullptr);
  EXPECT_EQ(artifact->metadata.name, "nothing");
  EXPECT_EQ(artifact->metadata.shared_bytes, 0);
}

TEST_F(NativeWorkerTest, BadSourcesSayWhatIsWrongAndWhere) {
  const std::string header = ".version 8.0\n.target sm_80\n.address_size 64\n";
  struct Bad {
    std::string source;
    std::string words;
    int line;
  };
  const std::vector<Bad> cases = {
      {"hello", "Missing .version", 1},
      {header + "#include \"/etc/passwd\"\n", "Parsing error", 4},
      {header + ".visible .entry a() {\n.reg .b32 %r;\nfoo.u32 %r, 1;\nret; }", "'foo'", 6},
      {".version 99.9\n.target sm_80\n", "Unsupported .version", 1},
      {".version 8.0\n.target sm_90a\n.address_size 64\n.entry a() { ret; }", "sm_90a", 0},
      {header, "defines no kernel", 0},
  };
  for (const Bad& bad : cases) {
    const CompileFailure failure = Fail({bad.source});
    EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument) << bad.source;
    EXPECT_EQ(failure.stage, "cubin");
    EXPECT_EQ(failure.line, bad.line) << bad.source;
    EXPECT_THAT(failure.message, HasSubstr(bad.words));
    EXPECT_TRUE(failure.deterministic);
  }
}

TEST_F(NativeWorkerTest, TooMuchSharedMemoryIsResourceExhausted) {
  const CompileFailure failure =
      Fail({".version 8.0\n.target sm_80\n.address_size 64\n.entry a(.param .u32 p) {\n"
            ".shared .b8 x[100000]; .reg .u64 %r; mov.u64 %r, x; st.shared.u64 [x], %r; ret; }"});
  EXPECT_EQ(failure.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(failure.message, HasSubstr("shared"));
}

TEST_F(NativeWorkerTest, ABadOptionIsItsOwnStage) {
  const CompileFailure failure = Fail({kTwoKernels, "90", {{"opt-level", {int64_t{17}}}}});
  EXPECT_EQ(failure.stage, "options");
  EXPECT_THAT(failure.message, AllOf(HasSubstr("opt-level"), HasSubstr("0 to 4")));
}

TEST_F(NativeWorkerTest, ADeadlineEndsPtxasAsWell) {
  CallContext context;
  context.deadline = SystemClock().Now() + std::chrono::milliseconds(500);
  const auto result = Run(*provider_, {EndlessPtx()}, std::move(context));
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
  // The next one is served, by a fresh worker where it must be.
  EXPECT_NE(Compile({}), nullptr);
}

TEST_F(NativeWorkerTest, AnotherProgramInItsPlaceCompilesNothing) {
  const TempDirectory directory;
  auto moved = std::make_shared<Toolchain>(*RealPtxas());
  moved->directory = directory.File("ptxas");
  std::filesystem::copy_file("/bin/true", moved->directory);
  WorkerPoolOptions options = PoolOptions();
  options.work_directory = directory.File("work");
  options.zygote =
      NativeZygoteCommand(*moved, NativeWorker(), directory.File("zygote"), InstalledJemalloc());
  PooledProvider provider(moved, options, SystemClock());
  const auto result = Run(provider, {});
  EXPECT_TRUE(absl::IsUnavailable(result.status()));
  EXPECT_THAT(std::string(Message(result.status())), HasSubstr("said no version"));
}

// In a process and a mount namespace of its own, since it fills the file system that it works on.
TEST_F(NativeWorkerTest, ACubinThatIsCutOffIsTheDisksFault) {
  const TempDirectory directory;
  constexpr int kMayNot = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    const uid_t uid = ::geteuid();
    if (::unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) ::_exit(kMayNot);
    if (uid != 0) WriteFileOrDie("/proc/self/uid_map", fmt::format("0 {} 1", uid));
    // Two pages: the PTX, and what ptxas says.
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=8k") != 0 ||
        ::chdir(directory.path().c_str()) != 0) {
      ::_exit(kMayNot);
    }
    const auto ptxas = PtxasCompiler::Open(RealPtxas()->directory);
    if (!ptxas.ok()) ::_exit(2);
    CompileRequest request;
    request.source.kind = SourceKind::kPtx;
    request.source.text = kTwoKernels;
    request.target = {"cuda", "90", 32};
    const WorkerReply reply = (*ptxas)->Compile(request);
    const bool is_told = reply.failure.message.find("cut off") != std::string::npos;
    ::_exit(is_told && reply.failure.code == absl::StatusCode::kUnavailable ? 0 : 1);
  }
  int status = -1;
  ASSERT_TRUE(ReapChild(child, std::chrono::seconds(60), &status));
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kMayNot) GTEST_SKIP() << "nothing may be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// What a request may give for PTX, it may give for what Triton assembles.
TEST_F(NativeWorkerTest, TritonsPtxasTakesTheSameOptions) {
  const BackendDescription* const cuda = RealPtxas()->FindBackend("cuda");
  ASSERT_NE(cuda, nullptr);
  EXPECT_GT(cuda->options.size(), 30u);
  for (const auto& [name, declaration] : cuda->options) {
    const absl::Status passes =
        CheckPtxOptions("--" + (name == "maxnreg" ? std::string("maxrregcount") : name));
    EXPECT_TRUE(passes.ok()) << passes;
  }
}

TEST_F(NativeWorkerTest, EveryPtxasOfAToolchainIsFound) {
  std::vector<std::string> names;
  for (const auto& each : RealToolchains().List()) {
    if (each->name == "ptxas") names.push_back(each->directory.substr(each->directory.rfind('/')));
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"/ptxas", "/ptxas-blackwell"}));
  EXPECT_EQ(RealToolchains().List().front()->name, "triton");
}

}  // namespace
}  // namespace kiln
