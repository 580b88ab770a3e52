// The launch library with a real OpenCL: Intel's runtime for CPUs, which tests/opencl_environment
// installs. The kernels are compiled as the daemon compiles OpenCL C.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>
#include <vector>

#include "client/launch/driver/opencl_calls.h"
#include "client/launch/driver/opencl_driver.h"
#include "client/launch/kiln_launch.h"
#include "client/launch/launcher.h"
#include "tests/testing/launch/launch_artifacts.h"
#include "tests/testing/temp_directory.h"

namespace kiln::launch {
namespace {

using testing::HasSubstr;

constexpr char kSource[] = R"(
kernel void add(global const float* x, global const float* y, global float* out, long n,
                float scale) {
  size_t i = get_global_id(0);
  if (i < n) out[i] = x[i] + scale * y[i];
}
kernel void place(global int* out, long width) {
  out[get_global_id(1) * width + get_global_id(0)] = get_group_id(1) * 100 + get_group_id(0);
}
kernel void reversed(global int* values, local int* copy) {
  size_t i = get_local_id(0);
  copy[i] = values[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  values[i] = copy[get_local_size(0) - 1 - i];
}
)";
using Parameters = std::vector<std::pair<std::string, std::string>>;
const Parameters kAdd = {
    {"x", "*f32"}, {"y", "*f32"}, {"out", "*f32"}, {"n", "i64"}, {"scale", "f32"}};
const Parameters kPlace = {{"out", "*i32"}, {"width", "i64"}};

const std::string& Module() {
  static const std::string& module = *new std::string([] {
    const TempDirectory directory;
    const std::string stem = directory.File("k");
    WriteFileOrDie(stem + ".cl", kSource);
    const std::string command =
        "clang-15 -c -target spirv64 -x cl -cl-std=CL2.0 -emit-llvm -O2 " + stem + ".cl -o " +
        stem + ".bc && llvm-spirv-15 --spirv-max-version=1.2 " + stem + ".bc -o " + stem + ".spv";
    if (std::system(command.c_str()) != 0) std::abort();
    return ReadFileOrDie(stem + ".spv");
  }());
  return module;
}

std::shared_ptr<const Artifact> Spirv(const std::string& name, const Parameters& parameters,
                                      const std::string& module = Module(),
                                      const std::string& version = "1.2") {
  const nlohmann::json patch = {{"target", {{"backend", "spirv"}, {"architecture", version}}},
                                {"shared_bytes", 0},
                                {"num_warps", 0},
                                {"hidden_pointers", 0}};
  const std::string document = MadeDocument(name, parameters, patch.dump());
  auto artifact = Artifact::FromBytes(document, module, Sha256(module), Sha256(document));
  EXPECT_TRUE(artifact.ok()) << artifact.status().message();
  return *artifact;
}

// What a program that uses OpenCL itself does: OpenCL's own functions.
class Program {
 public:
  explicit Program(const std::string& library) : handle_(::dlopen(library.c_str(), RTLD_NOW)) {}

  void* MakeQueue(void* context, void* device, bool measures = false) {
    const uint64_t properties[] = {0x1093, measures ? uint64_t{2} : 0, 0};
    int result = 0;
    void* queue = Find<void*(void*, void*, const uint64_t*, int*)>(
        "clCreateCommandQueueWithProperties")(context, device, properties, &result);
    EXPECT_EQ(result, 0);
    return queue;
  }
  void* MakeContext(void* device) {
    int result = 0;
    return Find<void*(const intptr_t*, unsigned, void**, void*, void*, int*)>("clCreateContext")(
        nullptr, 1, &device, nullptr, nullptr, &result);
  }
  void* DeviceOf(void* context) {
    void* device = nullptr;
    Find<int(void*, unsigned, size_t, void*, size_t*)>("clGetContextInfo")(
        context, opencl::kContextDevices, sizeof device, &device, nullptr);
    return device;
  }
  void Finish(void* queue) { EXPECT_EQ(Find<int(void*)>("clFinish")(queue), 0); }
  void ReleaseQueue(void* queue) { Find<int(void*)>("clReleaseCommandQueue")(queue); }
  void ReleaseContext(void* context) { Find<int(void*)>("clReleaseContext")(context); }
  template <typename Value>
  Value* Allocate(void* context, size_t count) {
    void* memory = Find<void*(void*, uint64_t, size_t, unsigned)>("clSVMAlloc")(
        context, opencl::kMemReadWrite | (1 << 10), count * sizeof(Value), 0);
    EXPECT_NE(memory, nullptr);
    return static_cast<Value*>(memory);
  }
  void Free(void* context, void* memory) { Find<void(void*, void*)>("clSVMFree")(context, memory); }

 private:
  template <typename Type>
  Type* Find(const char* name) {
    return reinterpret_cast<Type*>(::dlsym(handle_, name));
  }
  void* handle_;
};

// A context with one queue. The memory is fine-grained SVM, which a CPU has.
struct Place {
  Place(Program& in, void* its_context, bool measures = false)
      : program(in),
        context(its_context),
        queue(in.MakeQueue(its_context, in.DeviceOf(its_context), measures)) {}
  ~Place() {
    program.Finish(queue);
    for (void* memory : allocated) program.Free(context, memory);
    program.ReleaseQueue(queue);
  }
  template <typename Value>
  Value* Allocate(size_t count) {
    Value* memory = program.Allocate<Value>(context, count);
    std::fill_n(memory, count, Value{});
    allocated.push_back(memory);
    return memory;
  }
  Program& program;
  void* context;
  void* queue;
  std::vector<void*> allocated;
};

class OpenClLaunchTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* set = std::getenv("KILN_TEST_OPENCL");
    const char* home = std::getenv("HOME");
    const std::string runtime =
        set != nullptr ? set
                       : std::string(home == nullptr ? "" : home) + "/.cache/kiln/test-opencl";
    ::setenv("OCL_ICD_VENDORS", (runtime + "/vendors").c_str(), 1);
    auto driver = OpenClDriver::Open();
    ASSERT_TRUE(driver.ok()) << driver.status().message() << ": run tests/opencl_environment";
    launcher_ = new Launcher(*std::move(driver));
  }
  Launcher& launcher() { return *launcher_; }
  Driver& driver() { return launcher_->driver(); }
  void* Primary() { return *driver().PrimaryContext(0); }

  std::shared_ptr<Kernel> Open(std::shared_ptr<const Artifact> artifact, int device = 0) {
    auto kernel = launcher_->Open(std::move(artifact), device);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return *kernel;
  }
  // `arguments` are pointers to values.
  Status Enqueue(const std::shared_ptr<Kernel>& kernel, void* queue,
                 const std::array<uint32_t, 3>& grid, const std::array<uint32_t, 3>& block,
                 const std::vector<const void*>& arguments) {
    LaunchCall call{};
    Assign(call.grid, grid);
    Assign(call.block, block);
    call.stream = queue;
    call.arguments = arguments.data();
    call.argument_count = static_cast<uint32_t>(arguments.size());
    return launcher_->Enqueue(kernel, call);
  }
  static void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

  // Adds on `place`, and checks what it gave.
  void ExpectAdds(const std::shared_ptr<Kernel>& kernel, Place& place, int64_t n, float scale) {
    const auto count = static_cast<size_t>(n);
    float* x = place.Allocate<float>(count);
    float* y = place.Allocate<float>(count);
    float* out = place.Allocate<float>(count + 64);
    std::iota(x, x + count, 0.0f);
    std::fill_n(y, count, 2.0f);
    const auto blocks = static_cast<uint32_t>((n + 63) / 64);
    ExpectOk(Enqueue(kernel, place.queue, {blocks, 1, 1}, {64, 1, 1}, {&x, &y, &out, &n, &scale}));
    place.program.Finish(place.queue);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], x[i] + 2.0f * scale) << i;
    EXPECT_EQ(out[count], 0.0f) << "behind the end";
  }

  static inline Launcher* launcher_ = nullptr;  // as in a program, never destroyed
  Program program_{"libOpenCL.so.1"};
};

TEST_F(OpenClLaunchTest, DeviceHasItsFacts) {
  const StatusOr<DeviceFacts> device = launcher().Device(0);
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ(device->architecture, "1.4");
  EXPECT_NE(device->name, "");
  EXPECT_GE(device->threads_max, 1024);
  EXPECT_GT(device->shared_bytes_max, 0);
  EXPECT_GT(device->driver_version, 0);
  EXPECT_EQ(launcher().Device(99).status().message(), "there is no device 99, there are 1");
}

TEST_F(OpenClLaunchTest, PointersNumbersAndFloatsReachTheKernel) {
  const auto kernel = Open(Spirv("add", kAdd));
  ExpectOk(launcher().Prepare(*kernel));
  Place place(program_, Primary());
  ExpectAdds(kernel, place, 1000, 0.5f);
  ExpectAdds(kernel, place, 1, -3.0f);
  launcher().Close(*kernel);
}

TEST_F(OpenClLaunchTest, TheGridCountsBlocksAlongEachAxis) {
  const auto kernel = Open(Spirv("place", kPlace));
  Place place(program_, Primary());
  const int64_t width = 12;
  int32_t* out = place.Allocate<int32_t>(12 * 6);
  ExpectOk(Enqueue(kernel, place.queue, {3, 2, 1}, {4, 3, 1}, {&out, &width}));
  program_.Finish(place.queue);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 12; ++x) EXPECT_EQ(out[y * 12 + x], y / 3 * 100 + x / 4);
  }
  launcher().Close(*kernel);
}

TEST_F(OpenClLaunchTest, ALocalParameterTakesItsLength) {
  const auto kernel = Open(Spirv("reversed", {{"values", "*i32"}, {"copy", "*local i32"}}));
  Place place(program_, Primary());
  int32_t* values = place.Allocate<int32_t>(32);
  std::iota(values, values + 32, 0);
  const uint64_t bytes = 32 * sizeof(int32_t);
  ExpectOk(Enqueue(kernel, place.queue, {1, 1, 1}, {32, 1, 1}, {&values, &bytes}));
  program_.Finish(place.queue);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(values[i], 31 - i);
  launcher().Close(*kernel);
}

TEST_F(OpenClLaunchTest, WrongLaunchesNameFunctionAndError) {
  const auto kernel = Open(Spirv("place", kPlace));
  Place place(program_, Primary());
  int32_t* out = place.Allocate<int32_t>(64);
  const int64_t width = 8;
  const auto words = [&](void* queue, const std::array<uint32_t, 3>& block,
                         const std::vector<const void*>& arguments) {
    return std::string(Enqueue(kernel, queue, {1, 1, 1}, block, arguments).message());
  };
  EXPECT_THAT(words(place.queue, {8, 1, 1}, {&out}), HasSubstr("1 arguments, it takes 2"));
  EXPECT_THAT(words(place.queue, {0, 0, 0}, {&out, &width}),
              HasSubstr("it does not say its block, so the launch must"));
  EXPECT_THAT(words(place.queue, {1 << 20, 1, 1}, {&out, &width}), HasSubstr("threads"));
  EXPECT_THAT(words(nullptr, {8, 1, 1}, {&out, &width}),
              HasSubstr("is not a cl_command_queue: OpenCL has no default stream"));
  launcher().Close(*kernel);

  const auto narrow = Open(Spirv("place", {{"out", "*i32"}, {"width", "i32"}}));
  const Status status = Enqueue(narrow, place.queue, {1, 1, 1}, {8, 1, 1}, {&out, &width});
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("argument 1: clSetKernelArg: CL_INVALID_ARG_SIZE (-51)"));
  EXPECT_EQ(status.driver_result(), -51);
  launcher().Close(*narrow);
}

TEST_F(OpenClLaunchTest, WrongModulesAreRefusedWhenTheyAreLoaded) {
  const auto words = [&](std::shared_ptr<const Artifact> artifact) {
    const auto kernel = Open(std::move(artifact));
    const std::string said(launcher().Prepare(*kernel).message());
    launcher().Close(*kernel);
    return said;
  };
  EXPECT_THAT(words(Spirv("absent", kAdd)),
              HasSubstr("clCreateKernel: CL_INVALID_KERNEL_NAME (-46)"));
  EXPECT_THAT(words(Spirv("add", kPlace)),
              HasSubstr("the binary takes 5 parameters, the metadata says 2"));
  EXPECT_THAT(words(Spirv("add", {{"x", "image"}})), HasSubstr("(x: image) has a type that"));
  std::string broken = Module();
  std::fill(broken.begin() + 20, broken.end(), '\x7f');
  EXPECT_THAT(words(Spirv("add", kAdd, broken)), HasSubstr("CL_"));
  EXPECT_THAT(
      std::string(launcher().Open(Spirv("add", kAdd, Module(), "1.9"), 0).status().message()),
      HasSubstr("compiled for spirv:1.9, but device 0"));
}

TEST_F(OpenClLaunchTest, ThreadsLaunchOneKernelAtTheSameTime) {
  const auto kernel = Open(Spirv("add", kAdd));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Place place(program_, Primary());
      for (int round = 0; round < 20; ++round) {
        ExpectAdds(kernel, place, 100 + i, static_cast<float>(i * 100 + round));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  launcher().Close(*kernel);
}

TEST_F(OpenClLaunchTest, ACallersContextHasKernelsOfItsOwn) {
  void* context = program_.MakeContext(program_.DeviceOf(Primary()));
  EXPECT_THAT(std::string(launcher().Open(Spirv("add", kAdd), -1).status().message()),
              HasSubstr("no context is current"));
  ExpectOk(driver().SetContext(context));
  const auto own = Open(Spirv("add", kAdd), -1);
  const auto primary = Open(Spirv("add", kAdd));
  EXPECT_NE(own, primary);
  EXPECT_EQ(*driver().CurrentContext(), context);
  ExpectOk(driver().SetContext(nullptr));
  {
    Place there(program_, context);
    Place here(program_, Primary());
    ExpectAdds(own, there, 500, 1.0f);
    ExpectAdds(primary, here, 500, 1.0f);
    float* memory = here.Allocate<float>(64);
    const int64_t n = 1;
    const float scale = 1.0f;
    const Status status =
        Enqueue(own, here.queue, {1, 1, 1}, {64, 1, 1}, {&memory, &memory, &memory, &n, &scale});
    EXPECT_THAT(std::string(status.message()), HasSubstr("CL_INVALID_CONTEXT (-34)"));
  }
  launcher().Close(*own);
  launcher().Close(*primary);
  program_.ReleaseContext(context);
}

TEST_F(OpenClLaunchTest, TheLastCloseUnloads) {
  const uint64_t before = launcher().Stats().kernels_resident;
  const auto kernel = Open(Spirv("add", kAdd));
  ExpectOk(launcher().Prepare(*kernel));
  EXPECT_EQ(launcher().Stats().kernels_resident, before + 1);
  const StatusOr<FunctionFacts> facts = launcher().FactsOf(*kernel);
  ASSERT_TRUE(facts.ok());
  EXPECT_GE(facts->threads_max, 64);
  launcher().Close(*kernel);
  EXPECT_EQ(launcher().Stats().kernels_resident, before);
}

TEST_F(OpenClLaunchTest, AQueueWaitsForAnotherAndIsFilledInOrder) {
  const auto kernel = Open(Spirv("add", kAdd));
  Place producer(program_, Primary());
  Place consumer(program_, Primary());
  constexpr size_t kCount = 1 << 20;
  float* x = producer.Allocate<float>(kCount);
  float* out = consumer.Allocate<float>(kCount);
  const auto n = static_cast<int64_t>(kCount);
  const float scale = 0.0f;
  for (int round = 0; round < 10; ++round) {
    ExpectOk(launcher().Fill(*kernel, producer.queue,
                             {reinterpret_cast<Address>(x), kCount * sizeof(float)},
                             static_cast<uint8_t>(0x3F + round % 2)));
    ExpectOk(launcher().Order(*kernel, consumer.queue, producer.queue));
    ExpectOk(Enqueue(kernel, consumer.queue, {kCount / 64, 1, 1}, {64, 1, 1},
                     {&x, &x, &out, &n, &scale}));
    program_.Finish(consumer.queue);
    const uint32_t bits = round % 2 == 0 ? 0x3F3F3F3F : 0x40404040;
    EXPECT_EQ(std::bit_cast<uint32_t>(out[0]), bits);
    EXPECT_EQ(std::bit_cast<uint32_t>(out[kCount - 1]), bits);
  }
  launcher().Close(*kernel);
}

TEST_F(OpenClLaunchTest, LaunchesAreTimedOnAQueueThatMeasures) {
  const auto kernel = Open(Spirv("add", kAdd));
  kiln_launch_settings settings{};
  settings.times_launches = 1;
  launcher().Configure(settings);
  {
    Place place(program_, Primary(), /*measures=*/true);
    for (int i = 0; i < 3; ++i) ExpectAdds(kernel, place, 100'000, 1.0f);
    const StatusOr<kiln_launch_times> times = launcher().TimesOf(*kernel, /*resets=*/true);
    ASSERT_TRUE(times.ok()) << times.status().message();
    EXPECT_EQ(times->launches, 3u);
    EXPECT_GT(times->min_ms, 0.0);
    EXPECT_LE(times->min_ms, times->max_ms);
  }
  {
    Place place(program_, Primary());
    ExpectAdds(kernel, place, 100, 1.0f);
    EXPECT_THAT(std::string(launcher().TimesOf(*kernel).status().message()),
                HasSubstr("CL_QUEUE_PROFILING_ENABLE"));
  }
  launcher().Configure({});
  launcher().Close(*kernel);
}

}  // namespace
}  // namespace kiln::launch
