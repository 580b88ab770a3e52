// What each of these tests begins with.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/launch/kiln_launch.h"
#include "tests/gpu/launch/gpu.h"
#include "tests/gpu/launch/half.h"

namespace kiln::gpu {

#define EXPECT_LAUNCH_OK(call) EXPECT_EQ(call, KILN_LAUNCH_OK) << kiln_launch_error()
#define ASSERT_LAUNCH_OK(call) ASSERT_EQ(call, KILN_LAUNCH_OK) << kiln_launch_error()

class GpuTest : public testing::Test {
 protected:
  GpuTest() {
    EnterGpu();
    kiln_launch_open_options options{};
    options.size = sizeof options;
    options.driver_path = places().driver.c_str();
    EXPECT_LAUNCH_OK(kiln_launch_open(&options, &runtime_));
    Configure({});
  }
  ~GpuTest() override {
    Configure({});
    for (kiln_launch_kernel* kernel : kernels_) kiln_launch_kernel_close(kernel);
    kiln_launch_close(runtime_);
  }

  void Configure(kiln_launch_settings settings) {
    settings.size = sizeof settings;
    EXPECT_LAUNCH_OK(kiln_launch_configure(runtime_, &settings));
  }
  kiln_launch_stats Stats() {
    kiln_launch_stats stats{};
    stats.size = sizeof stats;
    EXPECT_LAUNCH_OK(kiln_launch_get_stats(runtime_, &stats));
    return stats;
  }
  // The driver tells of a graph's end from a thread of its own.
  bool GraphsAreGone() {
    for (int i = 0; i < 500 && Stats().live_graphs > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return Stats().live_graphs == 0;
  }
  static std::string JsonOf(const std::string& name) {
    return places().artifacts + "/" + name + ".json";
  }
  kiln_launch_code TryOpen(const std::string& name, kiln_launch_kernel** kernel, int device = 0) {
    kiln_launch_artifact* artifact = nullptr;
    if (const auto code = kiln_launch_artifact_open_json(JsonOf(name).c_str(), &artifact)) {
      return code;
    }
    const auto code = kiln_launch_kernel_open(runtime_, artifact, device, kernel);
    kiln_launch_artifact_close(artifact);
    return code;
  }
  // Ends the test, from wherever in it.
  [[noreturn]] static void Skip(const std::string& why) {
    const auto skip = [&] { GTEST_SKIP() << "  " << why; };
    skip();
    throw testing::AssertionException(
        testing::TestPartResult(testing::TestPartResult::kSkip, nullptr, -1, why.c_str()));
  }
  static bool IsAtLeast(int architecture) { return std::stoi(Architecture()) >= architecture; }
  kiln_launch_device Device() {
    kiln_launch_device device{};
    device.size = sizeof device;
    EXPECT_LAUNCH_OK(kiln_launch_get_device(runtime_, 0, &device));
    return device;
  }
  // Closed at the end. What this GPU cannot run ends the test: the one that compiled the kernels
  // said so of those that are not there.
  kiln_launch_kernel* Open(const std::string& name, int device = 0) {
    if (!std::filesystem::exists(JsonOf(CaseName(name)))) {
      Skip(name + " is not compiled for cuda:" + Architecture());
    }
    kiln_launch_kernel* kernel = nullptr;
    const kiln_launch_code code = TryOpen(CaseName(name), &kernel, device);
    if (code == KILN_LAUNCH_RESOURCE_EXHAUSTED) Skip(kiln_launch_error());
    EXPECT_LAUNCH_OK(code);
    if (kernel != nullptr) kernels_.push_back(kernel);
    return kernel;
  }
  void Close(kiln_launch_kernel* kernel) {
    std::erase(kernels_, kernel);
    kiln_launch_kernel_close(kernel);
  }

  static kiln_launch_config Config(uint32_t x, uint32_t y = 1, Handle stream = nullptr) {
    kiln_launch_config config{};
    config.size = sizeof config;
    config.grid[0] = x;
    config.grid[1] = y;
    config.grid[2] = 1;
    config.stream = stream;
    return config;
  }
  static kiln_launch_code Enqueue(kiln_launch_kernel* kernel, const kiln_launch_config& config,
                                  const std::vector<const void*>& arguments) {
    return kiln_launch_enqueue(kernel, &config, arguments.data(),
                               static_cast<uint32_t>(arguments.size()));
  }

  // From -1 to 1; the same each run.
  std::vector<float> Random(size_t count) {
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random_);
    return values;
  }
  std::vector<Half> RandomHalves(size_t count) {
    std::vector<Half> halves;
    for (const float value : Random(count)) halves.emplace_back(value);
    return halves;
  }

  // |got − expected| ≤ tolerance × (1 + |expected|), everywhere.
  template <typename T>
  static void ExpectNear(const std::vector<T>& got, const std::vector<double>& expected,
                         double tolerance) {
    ASSERT_EQ(got.size(), expected.size());
    size_t wrong = 0;
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double error =
          std::fabs(static_cast<double>(static_cast<float>(got[i])) - expected[i]) /
          (1 + std::fabs(expected[i]));
      if (!(error <= tolerance)) {
        if (wrong++ < 5) {
          ADD_FAILURE() << "at " << i << ": " << static_cast<float>(got[i]) << ", should be "
                        << expected[i];
        }
      }
      if (error > worst) worst = error;
    }
    std::printf("  worst error %.3g, tolerance %.3g, wrong %zu of %zu\n", worst, tolerance, wrong,
                got.size());
  }

  std::mt19937 random_{20261122};
  kiln_launch_runtime* runtime_ = nullptr;
  std::vector<kiln_launch_kernel*> kernels_;
};

// vector_add over one block more than a whole number of blocks.
class VectorAdd {
 public:
  static constexpr int32_t kCount = 100 * 1024 + 16;
  VectorAdd(const std::vector<float>& x, const std::vector<float>& y) : x_(x), y_(y), out_(kCount) {
    SetExpected(x, y);
  }

  std::vector<const void*> arguments() const {
    return {x_.argument(), y_.argument(), out_.argument(), &kCount};
  }
  static constexpr uint32_t kPrograms = (kCount + 1023) / 1024;
  void Write(const std::vector<float>& x, const std::vector<float>& y) {
    x_.Write(x);
    y_.Write(y);
    SetExpected(x, y);
  }
  void Clear() { GPU(cuMemsetD8_v2(out_.address(), 0xff, out_.bytes())); }
  bool IsRight() const { return out_.Read() == expected_; }
  DevicePointer x() const { return x_.address(); }

 private:
  void SetExpected(const std::vector<float>& x, const std::vector<float>& y) {
    expected_.resize(kCount);
    for (size_t i = 0; i < kCount; ++i) expected_[i] = x[i] + y[i];
  }
  Buffer<float> x_;
  Buffer<float> y_;
  Buffer<float> out_;
  std::vector<float> expected_;
};

}  // namespace kiln::gpu
