// graph_execute_benchmark: what an execution of a bound plan takes besides libkiln_launch, over the
// stand-in driver. Prints pairs of nanoseconds: by the plan, by the library.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/graph/c_api/kiln_graph.h"
#include "client/launch/kiln_launch.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln {
namespace {

constexpr int kBatches = 200;
constexpr int kLaunches = 200;  // of one batch

constexpr std::string_view kSegment = R"({"kiln_segment": 1, "name": "sum",
 "symbols": [{"name": "n", "max": 4096}],
 "values": [{"name": "x", "type": "f32", "shape": ["n", 64], "role": "input"},
            {"name": "bias", "type": "f32", "shape": [64], "role": "constant"},
            {"name": "h", "type": "f32", "shape": ["n", 64]},
            {"name": "y", "type": "f32", "shape": ["n", 64], "role": "output"}],
 "operations": [{"op": "Add", "inputs": ["x", "bias"], "outputs": ["h"]},
                {"op": "Relu", "inputs": ["h"], "outputs": ["y"]}]})";

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s, %s\n", what, kiln_graph_error(), kiln_launch_error());
  std::exit(1);
}

template <typename Options>
Options Sized() {
  Options options{};
  options.size = sizeof options;
  return options;
}

// One kernel of three buffers and a symbol, as a plan and as a program of C launch it.
class Launches {
 public:
  explicit Launches(FakeCudaLibrary& driver) {
    driver->MakeContext();
    auto options = Sized<kiln_launch_open_options>();
    options.driver_path = driver.path().c_str();
    Check(kiln_launch_open(&options, &runtime_) == 0, "kiln_launch_open");
    MakePlan();
    kiln_launch_artifact* const artifact = ArtifactOf(driver);
    Check(kiln_launch_kernel_open(runtime_, artifact, 0, &kernel_) == 0, "kiln_launch_kernel_open");
    Check(kiln_graph_bind(plan_, runtime_, 0, &bound_) == 0, "kiln_graph_bind");
    Check(kiln_graph_bound_set_artifact(bound_, 0, artifact) == 0, "kiln_graph_bound_set_artifact");
    Check(kiln_graph_bound_prepare(bound_) == 0, "kiln_graph_bound_prepare");
    execution_.buffer_count = 3;
    execution_.buffers = addresses_;
    execution_.symbols = &rows_;
    execution_.symbol_count = 1;
    config_.grid[0] = config_.grid[1] = config_.grid[2] = 1;
    config_.block[0] = 128;
    config_.block[1] = config_.block[2] = 1;
  }

  double Plan() {
    return Nanoseconds([this] {
      uint32_t next = 0;
      Check(kiln_graph_execute(bound_, &execution_, &next) == 0, "kiln_graph_execute");
    });
  }
  double Library() {
    return Nanoseconds([this] {
      const void* arguments[] = {&addresses_[0], &addresses_[1], &addresses_[2], &rows_};
      Check(kiln_launch_enqueue(kernel_, &config_, arguments, 4) == 0, "kiln_launch_enqueue");
    });
  }

 private:
  void MakePlan() {
    kiln_graph_segment* segment = nullptr;
    Check(kiln_graph_segment_open_json(kSegment.data(), kSegment.size(), &segment) == 0,
          "kiln_graph_segment_open_json");
    auto options = Sized<kiln_graph_plan_options>();
    options.target = "cuda:90";
    options.forced = "cuda";
    options.keeps_small_sections = 1;
    Check(kiln_graph_plan_open(segment, &options, &plan_) == 0, "kiln_graph_plan_open");
    kiln_graph_segment_close(segment);
  }

  kiln_launch_artifact* ArtifactOf(FakeCudaLibrary& driver) {
    auto kernel = Sized<kiln_graph_kernel>();
    Check(kiln_graph_plan_get_kernel(plan_, 0, &kernel) == 0, "kiln_graph_plan_get_kernel");
    driver->Define(kernel.entry, {.parameter_bytes = {8, 8, 8, 8}});
    const std::string json = MadeDocument(
        kernel.entry, {{"x", "*fp32"}, {"bias", "*fp32"}, {"y", "*fp32"}, {"n", "i64"}},
        R"({"num_warps": 0, "hidden_pointers": 0})");
    const std::string binary = MadeElf(kernel.entry);
    const launch::Sha256Digest digest = launch::Sha256(binary);
    auto bytes = Sized<kiln_launch_bytes>();
    bytes.json = json.data();
    bytes.json_bytes = json.size();
    bytes.binary = binary.data();
    bytes.binary_bytes = binary.size();
    bytes.digest = digest.data();
    kiln_launch_artifact* artifact = nullptr;
    Check(kiln_launch_artifact_open_bytes(&bytes, &artifact) == 0,
          "kiln_launch_artifact_open_bytes");
    return artifact;
  }

  template <typename Launch>
  static double Nanoseconds(Launch launch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    return took.count() / kLaunches;
  }

  uint64_t addresses_[3] = {0x7f0000000000, 0x7f0000100000, 0x7f0000200000};
  int64_t rows_ = 64;
  kiln_launch_runtime* runtime_ = nullptr;
  kiln_graph_plan* plan_ = nullptr;
  kiln_graph_bound* bound_ = nullptr;
  kiln_launch_kernel* kernel_ = nullptr;
  kiln_launch_config config_ = Sized<kiln_launch_config>();
  kiln_graph_execution execution_ = Sized<kiln_graph_execution>();
};

void Run() {
  FakeCudaLibrary driver;
  Launches launches(driver);
  std::printf("[");
  for (int i = 0; i < kBatches; ++i) {
    // In turns, each first as often as the other.
    const bool is_plan_first = i % 2 == 0;
    const double first = is_plan_first ? launches.Plan() : launches.Library();
    const double second = is_plan_first ? launches.Library() : launches.Plan();
    std::printf("%s[%.1f, %.1f]", i == 0 ? "" : ", ", is_plan_first ? first : second,
                is_plan_first ? second : first);
  }
  std::printf("]\n");
}

}  // namespace
}  // namespace kiln

int main() { kiln::Run(); }
