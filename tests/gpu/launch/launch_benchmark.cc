// gpu_launch_benchmark ARTIFACTS [DRIVER]: what a launch through libkiln_launch costs the CPU,
// against the same launch made with cuLaunchKernelEx alone. Prints a list of rows as
// tests/benchmarks/run --json does, with the microseconds of each batch as "raw".
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "client/launch/kiln_launch.h"
#include "tests/gpu/launch/gpu.h"

namespace kiln::gpu {
namespace {

constexpr int kBatches = 600;
constexpr int kLaunches = 100;  // of one batch; fewer than a stream holds, so none waits

void Check(kiln_launch_code code) {
  if (code == KILN_LAUNCH_OK) return;
  std::fprintf(stderr, "%s\n", kiln_launch_error());
  std::exit(1);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// vector_add of nothing: the GPU has no work, so the CPU's part is all there is.
class Launches {
 public:
  explicit Launches(const OwnStream& stream) : stream_(stream) {
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = places().driver.c_str();
    kiln_launch_runtime* runtime = nullptr;
    Check(kiln_launch_open(&options, &runtime));
    const std::string path = places().artifacts + "/" + CaseName("vector_add");
    kiln_launch_artifact* artifact = nullptr;
    Check(kiln_launch_artifact_open_json((path + ".json").c_str(), &artifact));
    Check(kiln_launch_kernel_open(runtime, artifact, 0, &kernel_));
    Check(kiln_launch_prepare(kernel_));
    LoadRaw(path + ".cubin");
    config_.size = sizeof config_;
    config_.grid[0] = config_.grid[1] = config_.grid[2] = 1;
    config_.stream = stream.get();
    raw_config_ = {{1, 1, 1}, {128, 1, 1}, 0, stream.get(), nullptr, 0};
  }

  double KilnMicroseconds() {
    return Microseconds([this] { Check(kiln_launch_enqueue(kernel_, &config_, arguments_, 4)); });
  }
  double RawMicroseconds() {
    return Microseconds([this] {
      void* arguments[] = {&x_, &x_, &x_, &n_, &hidden_, &hidden_};
      GPU(cuLaunchKernelEx(&raw_config_, function_, arguments, nullptr));
    });
  }
  // What a launch may have to ask the driver besides.
  double IsCapturingMicroseconds() {
    int state = 0;
    return Microseconds([&] { GPU(cuStreamIsCapturing(stream_.get(), &state)); });
  }
  double GetContextMicroseconds() {
    Handle context = nullptr;
    return Microseconds([&] { GPU(cuCtxGetCurrent(&context)); });
  }

 private:
  void LoadRaw(const std::string& path) {
    image_ = ReadFile(path);
    Handle library = nullptr;
    Handle kernel = nullptr;
    GPU(cuLibraryLoadData(&library, image_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    GPU(cuLibraryGetKernel(&kernel, library, "vector_add"));
    GPU(cuKernelGetFunction(&function_, kernel));
  }
  template <typename Launch>
  double Microseconds(Launch launch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    stream_.Wait();
    return took.count() / kLaunches;
  }

  const OwnStream& stream_;
  kiln_launch_kernel* kernel_ = nullptr;
  kiln_launch_config config_{};
  std::string image_;
  Handle function_ = nullptr;
  launch::cuda::LaunchConfig raw_config_{};
  DevicePointer x_ = 0;
  DevicePointer hidden_ = 0;
  int32_t n_ = 0;
  const void* arguments_[4] = {&x_, &x_, &x_, &n_};
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void Run() {
  OwnStream stream;
  Launches launches(stream);
  std::vector<double> kiln, raw, ratio, is_capturing, get_context;
  for (int i = 0; i < kBatches; ++i) {
    // In turns, each first as often as the other, so that a machine that slows down slows both.
    const bool is_kiln_first = i % 2 == 0;
    const double first = is_kiln_first ? launches.KilnMicroseconds() : launches.RawMicroseconds();
    const double second = is_kiln_first ? launches.RawMicroseconds() : launches.KilnMicroseconds();
    if (i < kBatches / 10) continue;  // warm-up
    kiln.push_back(is_kiln_first ? first : second);
    raw.push_back(is_kiln_first ? second : first);
    ratio.push_back(kiln.back() / raw.back());
    is_capturing.push_back(launches.IsCapturingMicroseconds());
    get_context.push_back(launches.GetContextMicroseconds());
  }
  const double value = Median(ratio);
  constexpr double kGoal = 1.05;
  std::fprintf(stderr, "launch: %.3f us through libkiln_launch, %.3f us by cuLaunchKernelEx\n",
               Median(kiln), Median(raw));
  std::fprintf(stderr, "  cuStreamIsCapturing alone: %.3f us, cuCtxGetCurrent: %.3f us\n",
               Median(is_capturing), Median(get_context));
  std::printf(
      "[{\"name\": \"launch\", \"value\": %.4f, \"goal\": %.2f, \"better\": \"lower\", "
      "\"holds\": %s, \"raw\": [",
      value, kGoal, value <= kGoal ? "true" : "false");
  for (size_t i = 0; i < kiln.size(); ++i) {
    std::printf("%s[%.4f, %.4f]", i == 0 ? "" : ", ", kiln[i], raw[i]);
  }
  std::printf("]}]\n");
}

}  // namespace
}  // namespace kiln::gpu

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: gpu_launch_benchmark ARTIFACTS [DRIVER]\n");
    return 2;
  }
  kiln::gpu::places().artifacts = arguments[1];
  if (count > 2) kiln::gpu::places().driver = arguments[2];
  kiln::gpu::Run();
}
