// Plans elu(x w) for any batch, has the daemon compile it, runs it on an OpenCL device, and
// compares with what the host computes.
//   gated [TARGET]     where $KILN_ROOT says; TARGET is spirv:1.2
#define CL_TARGET_OPENCL_VERSION 210
#include <CL/cl.h>
#include <kiln/graph.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int64_t kWide = 48;
constexpr int64_t kNarrow = 16;
constexpr float kAlpha = 0.5f;

void Check(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

kiln::graph::Segment Gated() {
  kiln::graph::Segment segment("gated");
  segment.AddSymbol("batch", {.min = 1, .max = 4096, .typical = 64});
  const int x = segment.AddInput("x", "f32", {"batch", kWide});
  const int w = segment.AddConstant("w", "f32", {kWide, kNarrow});
  const int h = segment.Add("MatMul", {x, w});
  const int y = segment.Add("Elu", {h}, R"({"alpha": 0.5})");
  segment.SetOutput(y, "y");
  return segment;
}

// A device with its queue, and memory that host and device share.
class Device {
 public:
  Device() {
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.backend = "spirv";
    void* context = nullptr;
    if (kiln_launch_open(&options, &runtime) != KILN_LAUNCH_OK ||
        kiln_launch_get_context(runtime, 0, &context) != KILN_LAUNCH_OK) {
      Check(absl::UnavailableError(kiln_launch_error()), "opening the device");
    }
    context_ = static_cast<cl_context>(context);
    cl_device_id device = nullptr;
    clGetContextInfo(context_, CL_CONTEXT_DEVICES, sizeof device, &device, nullptr);
    queue = clCreateCommandQueueWithProperties(context_, device, nullptr, nullptr);
  }
  float* Allocate(uint64_t bytes) {
    constexpr cl_svm_mem_flags kFlags = CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER;
    void* memory = clSVMAlloc(context_, kFlags, std::max<uint64_t>(bytes, 1), 0);
    if (memory == nullptr) Check(absl::ResourceExhaustedError("no memory"), "clSVMAlloc");
    return static_cast<float*>(memory);
  }

  kiln_launch_runtime* runtime = nullptr;
  cl_command_queue queue = nullptr;

 private:
  cl_context context_ = nullptr;
};

// The largest difference from what the host computes.
double LargestDifference(const float* x, const float* w, const float* y, int64_t batch) {
  double largest = 0;
  for (int64_t row = 0; row < batch; ++row) {
    for (int64_t column = 0; column < kNarrow; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < kWide; ++k) sum += x[row * kWide + k] * w[k * kNarrow + column];
      const double expected = sum > 0 ? sum : kAlpha * std::expm1(sum);
      largest = std::max(largest, std::abs(expected - y[row * kNarrow + column]));
    }
  }
  return largest;
}

// Executes the plan for one batch.
double Run(const kiln::graph::Plan& plan, const kiln::graph::Bound& bound, Device& device,
           int64_t batch) {
  const std::vector<int64_t> symbols = {batch};
  std::vector<uint64_t> addresses(plan.Info().buffers);
  std::vector<float*> memory(addresses.size());
  for (uint32_t i = 0; i < addresses.size(); ++i) {
    const auto bytes = bound.BufferBytes(i, symbols);
    Check(bytes.status(), "the size of a buffer");
    memory[i] = device.Allocate(*bytes);
    addresses[i] = reinterpret_cast<uint64_t>(memory[i]);
    for (uint64_t k = 0; k < *bytes / sizeof(float); ++k) {
      memory[i][k] = static_cast<float>(static_cast<int>(k * 7 % 23) - 11) / 16;
    }
  }
  const auto workspace_bytes = bound.WorkspaceBytes(symbols);
  Check(workspace_bytes.status(), "the size of the workspace");
  float* workspace = device.Allocate(*workspace_bytes);
  const auto step = bound.Execute({.buffers = addresses,
                                   .symbols = symbols,
                                   .workspace = reinterpret_cast<uint64_t>(workspace),
                                   .workspace_bytes = *workspace_bytes,
                                   .stream = device.queue});
  Check(step.status(), "executing");
  if (*step != plan.Info().steps) {  // an engine would compute this operation itself
    Check(absl::UnimplementedError(plan.Step(*step).reason), "a step is the engine's");
  }
  clFinish(device.queue);
  return LargestDifference(memory[*plan.FindBuffer("x")], memory[*plan.FindBuffer("w")],
                           memory[*plan.FindBuffer("y")], batch);
}

}  // namespace

int main(int argc, char** argv) {
  auto plan = kiln::graph::Plan::Make(Gated(), argc > 1 ? argv[1] : "spirv:1.2");
  Check(plan.status(), "planning");
  std::printf("%s", plan->Explain()->c_str());

  auto client = kiln::Client::Connect();
  Check(client.status(), "no daemon compiles the plan");
  Check(plan->Compile(**client), "compiling");

  Device device;
  const auto bound = plan->Bind(device.runtime, 0);
  Check(bound.status(), "binding");
  for (const int64_t batch : {1, 7, 64, 1000}) {
    const double difference = Run(*plan, *bound, device, batch);
    std::printf("batch %lld: differs by at most %.2g\n", static_cast<long long>(batch), difference);
    if (!(difference < 1e-4)) return 1;
  }
  return 0;
}
