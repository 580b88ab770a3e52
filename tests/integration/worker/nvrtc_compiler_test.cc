// NVRTC as a worker has it, against the library's own interface.
#include "daemon/worker/native/nvrtc_compiler.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <nlohmann/json.hpp>

#include "daemon/chain/pooled_provider.h"
#include "daemon/toolchain/found_toolchain.h"
#include "tests/testing/real_toolchains.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr char kReverse[] = R"(#include <cuda_fp16.h>
#include "my/tile.h"
template <typename T> __global__ void __launch_bounds__(TILE) reverse(T* x) {
  __shared__ T s[TILE];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[TILE - 1 - threadIdx.x];
}
)";

// The NVRTCs of $KILN_TEST_CUDA (directories, separated by ':'), or of the system's toolkit.
std::vector<FoundToolchain> FindNvrtcs() {
  const char* given = std::getenv("KILN_TEST_CUDA");
  std::vector<std::string> directories;
  std::string text = given == nullptr ? "/usr/local/cuda" : given;
  while (!text.empty()) {
    const size_t end = std::min(text.find(':'), text.size());
    directories.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  std::vector<FoundToolchain> found;
  for (const FoundToolchain& each : FindToolchains(directories, FileTrust())) {
    if (each.name == "nvrtc") found.push_back(each);
  }
  return found;
}

// The interface of the library, called as any program would call it.
class PlainNvrtc {
 public:
  explicit PlainNvrtc(const std::string& path) : library_(::dlopen(path.c_str(), RTLD_NOW)) {}

  struct Made {
    std::string ptx;
    std::string cubin;
  };
  Made Compile(const std::string& source, const std::vector<const char*>& arguments,
               const char* expression) {
    void* program = nullptr;
    const char* text = "#define TILE 64\n";
    const char* name = "my/tile.h";
    EXPECT_EQ(Get<int(void**, const char*, const char*, int, const char**, const char**)>(
                  "nvrtcCreateProgram")(&program, source.c_str(), "kernel.cu", 1, &text, &name),
              0);
    EXPECT_EQ(Get<int(void*, const char*)>("nvrtcAddNameExpression")(program, expression), 0);
    EXPECT_EQ(Get<int(void*, int, const char* const*)>("nvrtcCompileProgram")(
                  program, static_cast<int>(arguments.size()), arguments.data()),
              0);
    Made made{Output(program, "nvrtcGetPTX"), Output(program, "nvrtcGetCUBIN")};
    made.ptx.pop_back();  // its NUL
    Get<int(void**)>("nvrtcDestroyProgram")(&program);
    return made;
  }

 private:
  template <typename Function>
  Function* Get(const std::string& name) {
    return reinterpret_cast<Function*>(::dlsym(library_, name.c_str()));
  }
  std::string Output(void* program, const std::string& function) {
    size_t size = 0;
    EXPECT_EQ(Get<int(void*, size_t*)>(function + "Size")(program, &size), 0);
    std::string output(size, '\0');
    EXPECT_EQ(Get<int(void*, char*)>(function)(program, output.data()), 0);
    return output;
  }

  void* const library_;
};

class NvrtcCompilerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::vector<FoundToolchain> found = FindNvrtcs();
    if (found.empty()) {
      std::fprintf(stderr,
                   "This test needs an NVRTC and found none in KILN_TEST_CUDA (directories) or "
                   "/usr/local/cuda.\ndeploy/install-toolchain nvrtc==12.9.86 installs one.\n");
      std::exit(EXIT_FAILURE);
    }
    toolchain_ = new FoundToolchain(found.front());
    auto compiler = NvrtcCompiler::Open(toolchain_->path, toolchain_->includes);
    if (!compiler.ok()) {
      std::fprintf(stderr, "%s\n", std::string(Message(compiler.status())).c_str());
      std::exit(EXIT_FAILURE);
    }
    compiler_ = compiler->release();
  }

  static CompileRequest Request(const std::string& source) {
    CompileRequest request;
    request.source = {SourceKind::kCudaCxx, source, ""};
    request.target = {"cuda", "90a", 32};
    request.headers = {{"my/tile.h", "#define TILE 64\n"}};
    return request;
  }
  static CompileFailure Fail(const CompileRequest& request) {
    const WorkerReply reply = compiler_->Compile(request);
    EXPECT_EQ(reply.outcome, WorkerReply::Outcome::kFailed);
    return reply.failure;
  }
  static OptionValue Names(const std::vector<std::string>& names) {
    OptionTuple tuple;
    for (const std::string& name : names) tuple.push_back({name});
    return {std::move(tuple)};
  }

  static FoundToolchain* toolchain_;
  static NativeCompiler* compiler_;
};

FoundToolchain* NvrtcCompilerTest::toolchain_ = nullptr;
NativeCompiler* NvrtcCompilerTest::compiler_ = nullptr;

TEST_F(NvrtcCompilerTest, TheSameBytesAsTheLibraryGives) {
  CompileRequest request = Request(kReverse);
  request.options = {{"name-expressions", Names({"reverse<float>"})},
                     {"std", {std::string("c++17")}},
                     {"use_fast_math", {true}}};
  const WorkerReply reply = compiler_->Compile(request);
  ASSERT_EQ(reply.outcome, WorkerReply::Outcome::kCompiled) << reply.failure.message;

  std::vector<std::string> arguments{"--gpu-architecture=sm_90a"};
  for (const std::string& directory : toolchain_->includes) {
    arguments.push_back("--include-path=" + directory);
  }
  for (const char* each : {"--no-cache", "--ptxas-options=-v", "--std=c++17", "--use_fast_math"}) {
    arguments.emplace_back(each);
  }
  std::vector<const char*> pointers;
  for (const std::string& each : arguments) pointers.push_back(each.c_str());
  const auto made = PlainNvrtc(toolchain_->path).Compile(kReverse, pointers, "reverse<float>");
  ASSERT_EQ(reply.stages.size(), 2u);
  EXPECT_EQ(reply.stages[0].stage, "ptx");
  EXPECT_TRUE(reply.stages[0].bytes == made.ptx);
  EXPECT_EQ(reply.stages[1].stage, "cubin");
  EXPECT_TRUE(reply.stages[1].bytes == made.cubin);
}

TEST_F(NvrtcCompilerTest, BinaryDoesNotDependOnTheWorkDirectory) {
  CompileRequest request = Request(kReverse);
  request.options = {{"name-expressions", Names({"reverse<float>"})},
                     {"generate-line-info", {true}}};
  std::vector<WorkerReply> replies;
  for (int worker = 0; worker < 2; ++worker) {
    const TempDirectory directory;
    ASSERT_EQ(::chdir(directory.path().c_str()), 0);
    replies.push_back(compiler_->Compile(request));
    ASSERT_EQ(replies.back().outcome, WorkerReply::Outcome::kCompiled);
    EXPECT_THAT(replies.back().stages[0].bytes, testing::Not(HasSubstr(directory.path())));
  }
  EXPECT_TRUE(replies[0].stages[0].bytes == replies[1].stages[0].bytes);
  EXPECT_TRUE(replies[0].stages[1].bytes == replies[1].stages[1].bytes);
}

TEST_F(NvrtcCompilerTest, NamesComeBackLowered) {
  CompileRequest request = Request(kReverse);
  request.options = {{"name-expressions", Names({"reverse<__half>", "reverse<float>"})}};
  const WorkerReply reply = compiler_->Compile(request);
  ASSERT_EQ(reply.outcome, WorkerReply::Outcome::kCompiled) << reply.failure.message;
  const auto told = nlohmann::json::parse(reply.metadata.toolchain_metadata);
  EXPECT_EQ(told["lowered_names"]["reverse<float>"], "_Z7reverseIfEvPT_");
  EXPECT_EQ(told["entry_count"], 2);
  // The first that was asked for.
  EXPECT_EQ(reply.metadata.name, "_Z7reverseI6__halfEvPT_");
  EXPECT_EQ(reply.metadata.shared_bytes, 128);
  EXPECT_GT(reply.metadata.registers.value_or(0), 0);
  EXPECT_EQ(reply.metadata.spill_bytes, 0);
  ASSERT_EQ(reply.metadata.parameters.size(), 1u);
  EXPECT_EQ(reply.metadata.parameters[0].type, "u64");
}

TEST_F(NvrtcCompilerTest, LtoIrInsteadOfABinary) {
  CompileRequest request = Request(kReverse);
  request.options = {{"name-expressions", Names({"reverse<float>"})}, {"dlink-time-opt", {true}}};
  const WorkerReply reply = compiler_->Compile(request);
  ASSERT_EQ(reply.outcome, WorkerReply::Outcome::kCompiled) << reply.failure.message;
  ASSERT_EQ(reply.stages.size(), 1u);
  EXPECT_EQ(reply.stages[0].stage, "ltoir");
  EXPECT_GT(reply.stages[0].bytes.size(), 100u);
}

TEST_F(NvrtcCompilerTest, BadSourcesSayWhatIsWrongAndWhere) {
  struct Bad {
    std::string source;
    std::string words;
    int line;
  };
  const std::vector<Bad> cases = {
      {"__global__ void f() {\n  int x = ;\n}", "expected an expression", 2},
      {"#include \"missing.h\"\n", "missing.h", 1},
      {"#error no\n", "no", 1},
      {"__device__ int f() { return 1; }", "defines no kernel", 0},
      {"template <class T> __global__ void f(T) {}", "option name-expressions", 0},
      // The line that a warning is about comes first.
      {"__global__ void f() {\n  1; // see(7): error: handle\n  int x = ;\n}",
       "expected an expression", 3},
  };
  for (const Bad& bad : cases) {
    const CompileFailure failure = Fail(Request(bad.source));
    EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument) << bad.source;
    EXPECT_EQ(failure.line, bad.line) << bad.source;
    EXPECT_THAT(failure.message, HasSubstr(bad.words)) << bad.source;
    EXPECT_TRUE(failure.deterministic);
  }
  CompileRequest unknown = Request(kReverse);
  unknown.options = {{"name-expressions", Names({"absent<float>"})}};
  EXPECT_EQ(Fail(unknown).code, absl::StatusCode::kInvalidArgument);
  unknown.options = {{"name-expressions", {std::string("reverse<float>")}}};
  EXPECT_EQ(Fail(unknown).stage, "options");
}

TEST_F(NvrtcCompilerTest, TooMuchSharedMemoryIsResourceExhausted) {
  const CompileFailure failure =
      Fail(Request("__global__ void f(int i) { __shared__ volatile char s[300000]; s[i] = 1; s[i + "
                   "1] = s[i]; }"));
  EXPECT_EQ(failure.code, absl::StatusCode::kResourceExhausted) << failure.message;
  EXPECT_EQ(failure.stage, "cubin");
}

// The library as a toolchain of its own, with a pool of one jailed worker.
class NvrtcPool {
 public:
  NvrtcPool(const FoundToolchain& found, const std::string& version)
      : toolchain_(Describe(found, version)), provider_(toolchain_, Options(), SystemClock()) {}

  CompileResult Compile(const CompileRequest& request) {
    auto job = std::make_shared<CompileJob>();
    job->request = request;
    job->toolchain = toolchain_;
    std::promise<absl::StatusOr<CompileResult>> promise;
    provider_.Compile({}, job, [&promise](auto result) { promise.set_value(std::move(result)); });
    const auto result = promise.get_future().get();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : CompileResult();
  }

 private:
  static std::shared_ptr<const Toolchain> Describe(const FoundToolchain& found,
                                                   const std::string& version) {
    auto toolchain = std::make_shared<Toolchain>();
    toolchain->name = "nvrtc";
    toolchain->version = version;
    toolchain->directory = found.path;
    toolchain->includes = found.includes;
    toolchain->backends.emplace_back();
    toolchain->backends[0].backend = "cuda";
    toolchain->backends[0].stages = {"ptx", "cubin"};
    return toolchain;
  }
  WorkerPoolOptions Options() const {
    WorkerPoolOptions options;
    options.work_directory = directory_.File("work");
    options.zygote = NativeZygoteCommand(*toolchain_, NativeWorker(), directory_.File("zygote"),
                                         InstalledJemalloc());
    options.zygote.jail = std::make_shared<Jail>(Jail::Mode::kOn, JailSupport::OfThisKernel());
    return options;
  }

  const TempDirectory directory_;
  const std::shared_ptr<const Toolchain> toolchain_;
  PooledProvider provider_;
};

std::string ManyKernels(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format(
        "__global__ void k{0}(float* p) {{ float s[32];\n"
        "for (int i = 0; i < 32; ++i) s[i] = p[i + {0}];\n"
        "for (int n = 0; n < {0} + 9; ++n)\n"
        "  for (int i = 0; i < 32; ++i) s[i] = s[i] * s[(i + 1) % 32] + sinf(s[(i + {0}) % 32]);\n"
        "for (int i = 0; i < 32; ++i) p[i] = s[i]; }}\n",
        i);
  }
  return text;
}

TEST_F(NvrtcCompilerTest, AWorkerTellsWhatMemoryACompileTook) {
  NvrtcPool pool(*toolchain_, compiler_->Version());
  uint64_t small = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    small = std::min(small, pool.Compile(Request(ManyKernels(1))).peak_bytes);
  }
  const uint64_t large = pool.Compile(Request(ManyKernels(9))).peak_bytes;
  std::printf("%zu and %zu MiB\n", static_cast<size_t>(small / limits::kMiB),
              static_cast<size_t>(large / limits::kMiB));
  EXPECT_GT(small, limits::kMiB);
  EXPECT_GT(large, small + 4 * limits::kMiB);
  EXPECT_LT(large, limits::kGiB);
}

TEST_F(NvrtcCompilerTest, SaysWhatItCanDo) {
  const auto described = compiler_->Describe();
  ASSERT_TRUE(described.ok()) << described.status();
  const auto& cuda = (*described)["backends"][0];
  EXPECT_THAT(cuda["architectures"], AllOf(Contains("80"), Contains("90"), Contains("90a")));
  EXPECT_EQ(cuda["stages_with"]["dlink-time-opt"], nlohmann::json({"ltoir"}));
  EXPECT_TRUE(cuda["options"].contains("name-expressions"));
  EXPECT_TRUE(compiler_->NeedsJail());
  EXPECT_TRUE(compiler_->NamesAllItOpens());
  EXPECT_THAT(compiler_->Version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace kiln
