// <kiln/graph.h> with a real daemon, and with Intel's OpenCL runtime for CPUs, which
// tests/opencl_environment installs: plans are compiled, bound and executed, and their numbers are
// compared with the host's.
#define CL_TARGET_OPENCL_VERSION 210
#include <CL/cl.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/graph.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr int64_t kWide = 24;
constexpr int64_t kNarrow = 16;

// y = exp(-relu(softmax(elu(x w)))), a kernel for each operation but the softmax, which the engine
// keeps.
graph::Segment Scores() {
  graph::Segment segment("scores");
  segment.AddSymbol("n", {.min = 1, .max = 5000, .typical = 64});
  const int x = segment.AddInput("x", "f32", {"n", kWide});
  const int w = segment.AddConstant("w", "f32", {kWide, kNarrow});
  const int h = segment.Add("MatMul", {x, w});
  const int e = segment.Add("Elu", {h});
  const int s = segment.AddIntermediate("s", "f32", {"n", kNarrow});
  segment.AddKept("OwnSoftmax", {e}, {s}, "the engine has a better one");
  const int r = segment.Add("Relu", {s});
  const int m = segment.Add("Neg", {r});
  segment.SetOutput(segment.Add("Exp", {m}), "y");
  return segment;
}

absl::StatusOr<graph::Plan> MakePlan(const std::string& target,
                                     const graph::PlanOptions& options = {
                                         .fuses = false, .keeps_small_sections = true}) {
  return graph::Plan::Make(Scores(), target, options);
}

void Softmax(const float* in, float* out, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row, in += kNarrow, out += kNarrow) {
    const float largest = *std::max_element(in, in + kNarrow);
    float sum = 0;
    for (int64_t i = 0; i < kNarrow; ++i) sum += out[i] = std::exp(in[i] - largest);
    for (int64_t i = 0; i < kNarrow; ++i) out[i] /= sum;
  }
}

std::vector<float> Expected(const float* x, const float* w, int64_t n) {
  std::vector<float> h(static_cast<size_t>(n * kNarrow));
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t column = 0; column < kNarrow; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < kWide; ++k) sum += x[row * kWide + k] * w[k * kNarrow + column];
      h[static_cast<size_t>(row * kNarrow + column)] =
          static_cast<float>(sum > 0 ? sum : std::expm1(sum));
    }
  }
  std::vector<float> y(h.size());
  Softmax(h.data(), y.data(), n);
  for (float& each : y) each = std::exp(-each);
  return y;
}

// OpenCL's own functions, as a program that uses OpenCL calls them.
class OpenClDevice {
 public:
  OpenClDevice() {
    const char* set = std::getenv("KILN_TEST_OPENCL");
    const char* home = std::getenv("HOME");
    const std::string runtime =
        set != nullptr ? set
                       : std::string(home == nullptr ? "" : home) + "/.cache/kiln/test-opencl";
    ::setenv("OCL_ICD_VENDORS", (runtime + "/vendors").c_str(), 1);
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.backend = "spirv";
    void* context = nullptr;
    if (kiln_launch_open(&options, &runtime_) != KILN_LAUNCH_OK ||
        kiln_launch_get_context(runtime_, 0, &context) != KILN_LAUNCH_OK) {
      ADD_FAILURE() << kiln_launch_error() << ": run tests/opencl_environment";
      std::abort();
    }
    context_ = static_cast<cl_context>(context);
    Find<decltype(clGetContextInfo)>("clGetContextInfo")(context_, CL_CONTEXT_DEVICES,
                                                         sizeof device_, &device_, nullptr);
  }
  cl_command_queue MakeQueue() {
    return Find<decltype(clCreateCommandQueueWithProperties)>("clCreateCommandQueueWithProperties")(
        context_, device_, nullptr, nullptr);
  }
  void Finish(cl_command_queue queue) { Find<decltype(clFinish)>("clFinish")(queue); }
  void Release(cl_command_queue queue) {
    Find<decltype(clReleaseCommandQueue)>("clReleaseCommandQueue")(queue);
  }
  float* Allocate(uint64_t bytes) {
    return static_cast<float*>(Find<decltype(clSVMAlloc)>("clSVMAlloc")(
        context_, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, std::max<uint64_t>(bytes, 1),
        0));
  }
  void Free(float* memory) { Find<decltype(clSVMFree)>("clSVMFree")(context_, memory); }
  kiln_launch_runtime* runtime() const { return runtime_; }

 private:
  template <typename Function>
  Function* Find(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  void* const library_ = ::dlopen("libOpenCL.so.1", RTLD_NOW);
  kiln_launch_runtime* runtime_ = nullptr;
  cl_context context_ = nullptr;
  cl_device_id device_ = nullptr;
};

OpenClDevice& Device() {
  static OpenClDevice& device = *new OpenClDevice;
  return device;
}

// The memory of one execution, on a queue of its own.
class Place {
 public:
  Place(const graph::Plan& plan, const graph::Bound& bound, int64_t n)
      : plan_(plan), bound_(bound), n_(n), queue_(Device().MakeQueue()) {
    for (uint32_t i = 0; i < plan.Info().buffers; ++i) {
      const bool is_external = plan.Buffer(i).is_external != 0;
      const uint64_t bytes = bound.BufferBytes(i, symbols()).value();
      memory_.push_back(is_external ? Device().Allocate(bytes) : nullptr);
      addresses_.push_back(reinterpret_cast<uint64_t>(memory_.back()));
      for (uint64_t k = 0; is_external && k < bytes / sizeof(float); ++k) {
        memory_.back()[k] = static_cast<float>(static_cast<int>(k * 7 % 23) - 11) / 16;
      }
    }
    workspace_bytes_ = bound.WorkspaceBytes(symbols()).value();
    workspace_ = Device().Allocate(workspace_bytes_);
  }
  ~Place() {
    Device().Finish(queue_);
    for (float* each : memory_) {
      if (each != nullptr) Device().Free(each);
    }
    Device().Free(workspace_);
    Device().Release(queue_);
  }
  std::span<const int64_t> symbols() const { return {&n_, 1}; }
  float* At(const char* value) { return memory_[*plan_.FindBuffer(value)]; }
  graph::Execution Whole() const {
    return {.buffers = addresses_,
            .symbols = symbols(),
            .workspace = reinterpret_cast<uint64_t>(workspace_),
            .workspace_bytes = workspace_bytes_,
            .stream = queue_};
  }
  // As an engine does: its own operation where the plan has it.
  void ExpectComputes() {
    graph::Execution execution = Whole();
    auto step = bound_.Execute(execution);
    ASSERT_TRUE(step.ok()) << step.status();
    ASSERT_EQ(plan_.Step(*step).operation, 2) << "OwnSoftmax";
    Device().Finish(queue_);
    Softmax(At("v3"), At("s"), n_);
    execution.first_step = *step + 1;
    step = bound_.Execute(execution);
    ASSERT_TRUE(step.ok()) << step.status();
    ASSERT_EQ(*step, plan_.Info().steps);
    Device().Finish(queue_);
    const std::vector<float> expected = Expected(At("x"), At("w"), n_);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(At("y")[i], expected[i], 1e-5) << i;
  }

 private:
  const graph::Plan& plan_;
  const graph::Bound& bound_;
  const int64_t n_;
  cl_command_queue queue_;
  std::vector<float*> memory_;
  std::vector<uint64_t> addresses_;
  float* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
};

class OpenClGraphTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    daemon_ = new TemporaryDaemon({"--set", R"(toolchain.directories=["/usr"])"});
    daemon_->Start();
  }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }

  static inline TemporaryDaemon* daemon_ = nullptr;
};

TEST_F(OpenClGraphTest, APlanComputesForEachSizeAroundAnOperationOfTheEngines) {
  auto plan = MakePlan("spirv:1.2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  uint32_t told = 0;
  const absl::Status compiled =
      plan->Compile(*daemon_->Connect(), [&told](uint32_t, const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        ++told;
      });
  ASSERT_TRUE(compiled.ok()) << compiled;
  EXPECT_EQ(told, 5u);
  const auto bound = plan->Bind(Device().runtime(), 0);
  ASSERT_TRUE(bound.ok()) << bound.status();
  for (const int64_t n : {1, 7, 64, 1000, 4097}) {
    SCOPED_TRACE(n);
    Place(*plan, *bound, n).ExpectComputes();
  }
  std::vector<std::thread> threads;
  for (int64_t n = 100; n < 104; ++n) {
    threads.emplace_back([&plan, &bound, n] { Place(*plan, *bound, n).ExpectComputes(); });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_THAT(bound->WorkspaceBytes({{5001}}).status().ToString(),
              HasSubstr("symbol n is 5001: it is 1 to 5000"));
  Place place(*plan, *bound, 64);
  graph::Execution execution = place.Whole();
  execution.workspace = 0;
  EXPECT_THAT(bound->Execute(execution).status().ToString(),
              HasSubstr("the workspace has 0 bytes, "));
}

TEST_F(OpenClGraphTest, PlansOfTwoTargetsAreOneBatchAndTheDeviceHasItsOwn) {
  auto plans = graph::Plans::Make(Scores(), {"cuda:80", "hip:gfx942", "spirv:1.2"},
                                  {.compilers = "cuda,opencl", .keeps_small_sections = true});
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_EQ(plans->plans().size(), 2u);
  ASSERT_EQ(plans->refusals().size(), 1u);
  EXPECT_EQ(plans->refusals()[0].target, "hip:gfx942");
  const auto text = plans->Explain();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, testing::StartsWith("for cuda:80\nscores: 6 operations"));
  EXPECT_THAT(*text, HasSubstr("\nfor spirv:1.2\nscores: 6 operations"));
  EXPECT_THAT(*text, HasSubstr("\nnot for hip:gfx942: none of the compilers"));
  std::map<std::string, int> told;  // by target; failed ones count as -1
  absl::Status compiled;
  const auto client = daemon_->Connect();
  plans
      ->Preload(
          *client, [&compiled](const absl::Status& status) { compiled = status; },
          [&told](graph::Plan& plan, uint32_t, const absl::Status& status) {
            told[plan.target()] += status.ok() ? 1 : -1;
          })
      .join();
  ASSERT_TRUE(compiled.ok()) << compiled;
  ASSERT_TRUE(plans
                  ->Compile(*client,
                            [](graph::Plan& plan, uint32_t, const absl::Status&) {
                              ADD_FAILURE() << plan.target() << " is compiled already";
                            })
                  .ok());
  EXPECT_EQ(told, (std::map<std::string, int>{{"cuda:80", -2}, {"spirv:1.2", 2}}))
      << "the daemon has no toolchain for cuda:80";
  const auto plan = plans->For(Device().runtime(), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->target(), "spirv:1.2");
  const auto bound = plans->Bind(Device().runtime(), 0);
  ASSERT_TRUE(bound.ok()) << bound.status();
}

TEST_F(OpenClGraphTest, ADeviceForWhichThereIsNoPlanIsNamed) {
  auto plans = graph::Plans::Make(Scores(), {"cuda:80", "hip:gfx942"});
  ASSERT_TRUE(plans.ok()) << plans.status();
  const auto bound = plans->Bind(Device().runtime(), 0);
  EXPECT_EQ(bound.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(bound.status().ToString(), HasSubstr("device 0 ("));
  EXPECT_THAT(bound.status().ToString(), HasSubstr("and there are plans for cuda:80, hip:gfx942"));
}

TEST_F(OpenClGraphTest, PreloadCompilesInTheBackground) {
  auto plan = MakePlan("spirv:1.2", {.keeps_small_sections = true});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(plan->Bind(Device().runtime(), 0).status()));
  const auto client = daemon_->Connect();
  absl::Status ended = absl::UnknownError("not yet");
  {
    const std::jthread loading = plan->Preload(*client, [&](const absl::Status& s) { ended = s; });
  }
  ASSERT_TRUE(ended.ok()) << ended;
  EXPECT_TRUE(plan->Bind(Device().runtime(), 0).ok());
}

std::string CudaDirectory() {
  const char* set = std::getenv("KILN_TEST_CUDA");  // directories, separated by ':'
  const std::string cuda = set == nullptr ? "/usr/local/cuda" : set;
  return cuda.substr(0, cuda.find(':'));
}

TEST_F(OpenClGraphTest, AKernelThatDoesNotCompileIsWrittenForTheNextCompiler) {
  TemporaryDaemon daemon({"--set", "toolchain.directories=[\"" + CudaDirectory() + "\"]"});
  daemon.Start();  // has NVRTC and no Triton
  auto plan = MakePlan("cuda:90", {.compilers = "triton,cuda", .keeps_small_sections = true});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_STREQ(plan->Kernel(0).kind, "ttir");
  std::vector<int> told(plan->Info().kernels);
  const absl::Status compiled =
      plan->Compile(*daemon.Connect(), [&told](uint32_t kernel, const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        ++told[kernel];
      });
  ASSERT_TRUE(compiled.ok()) << compiled;
  EXPECT_EQ(told, std::vector<int>(told.size(), 1)) << "each once, when it is there";
  for (uint32_t kernel = 0; kernel < told.size(); ++kernel) {
    EXPECT_STREQ(plan->Kernel(kernel).kind, "cuda");
    EXPECT_THAT(plan->Kernel(kernel).why, HasSubstr("triton: "));
  }
}

// The driver's stand-in with the kernels of MakePlan, whatever their code.
class FakeDevice {
 public:
  explicit FakeDevice(const graph::Plan& plan) {
    fake_->MakeContext();
    for (uint32_t kernel = 0; kernel < plan.Info().kernels; ++kernel) {
      const bool is_product =
          std::string_view(plan.Kernel(kernel).entry).find("matmul") != std::string_view::npos;
      fake_->Define(plan.Kernel(kernel).entry,
                    {.parameter_bytes = std::vector<size_t>(is_product ? 4 : 3, 8)});
    }
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = fake_.path().c_str();
    EXPECT_EQ(kiln_launch_open(&options, &runtime_), KILN_LAUNCH_OK) << kiln_launch_error();
  }
  ~FakeDevice() {
    kiln_launch_close(runtime_);
    fake_->SetCurrent(nullptr);
  }
  void FailNextLoads(int count) { fake_->Fail("cuLibraryLoadData", /*INVALID_IMAGE*/ 200, count); }
  kiln_launch_runtime* runtime() { return runtime_; }

 private:
  FakeCudaLibrary fake_;
  kiln_launch_runtime* runtime_ = nullptr;
};

TEST_F(OpenClGraphTest, OperationsOfAKernelThatDoesNotLoadAreTheEngines) {
  TemporaryDaemon daemon({"--set", "toolchain.directories=[\"" + CudaDirectory() + "\"]"});
  daemon.Start();
  const auto client = daemon.Connect();
  auto plan =
      MakePlan("cuda:90", {.compilers = "cuda", .fuses = false, .keeps_small_sections = true});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status compiled = plan->Compile(*client);
  ASSERT_TRUE(compiled.ok()) << compiled;
  FakeDevice device(*plan);
  device.FailNextLoads(2);
  std::vector<graph::LoadFailure> failures;
  EXPECT_FALSE(plan->Bind(device.runtime(), 0, &failures).ok());
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[1].kernel, 1u);
  EXPECT_THAT(failures[1].why, HasSubstr("cuLibraryLoadData"));

  device.FailNextLoads(2);  // no compiler is left for the first two
  const auto bound = plan->Bind(*client, device.runtime(), 0);
  ASSERT_TRUE(bound.ok()) << bound.status();
  for (uint32_t step = 0; step < 2; ++step) {
    EXPECT_EQ(plan->Step(step).is_engines, 1u);
    EXPECT_THAT(plan->Step(step).reason, HasSubstr("cuLibraryLoadData"));
  }
  EXPECT_EQ(plan->Kernel(1).step, -1);
  EXPECT_GE(plan->Kernel(2).step, 0);
  EXPECT_EQ(plan->Key()->size(), 64u);
}

TEST_F(OpenClGraphTest, WithoutAToolchainTheOperationsAreTheEngines) {
  auto plan = MakePlan("cuda:90");  // this daemon compiles OpenCL C alone
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status compiled = plan->Compile(*daemon_->Connect());
  ASSERT_TRUE(compiled.ok()) << compiled;
  for (uint32_t step = 0; step < plan->Info().steps; ++step) {
    EXPECT_EQ(plan->Step(step).is_engines, 1u) << step;
    EXPECT_STRNE(plan->Step(step).reason, "");
  }
}

TEST_F(OpenClGraphTest, AfterTheDaemonsEndTheRestIsCompiledByTheNext) {
  auto plan = MakePlan("spirv:1.2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ConnectOptions options;
  options.reads_hot_directory = false;
  options.retry.attempts_max = 1;
  const auto client = daemon_->Connect(options);
  daemon_->Kill();
  const absl::Status gone = plan->Compile(*client);
  EXPECT_TRUE(absl::IsUnavailable(gone)) << gone;
  EXPECT_EQ(plan->Step(0).is_engines, 0u) << "another compiler would not help";
  daemon_->Start();
  const absl::Status compiled = plan->Compile(*daemon_->Connect());
  EXPECT_TRUE(compiled.ok()) << compiled;
  EXPECT_TRUE(plan->Bind(Device().runtime(), 0).ok());
}

}  // namespace
}  // namespace kiln
