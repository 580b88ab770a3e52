#include "client/launch/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <future>
#include <map>
#include <thread>

#include "client/launch/driver/cuda_driver.h"
#include "client/launch/tensor_descriptor.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::launch {
namespace {

using testing::HasSubstr;

constexpr int kOutOfMemory = 2;

// The processor time of this thread, as std::clock has that of the process.
std::clock_t ThreadClock() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * CLOCKS_PER_SEC + now.tv_nsec * CLOCKS_PER_SEC / 1'000'000'000;
}

kiln_launch_settings Limits(uint64_t kernels_max, uint64_t bytes_max = 0) {
  kiln_launch_settings settings{};
  settings.resident_kernels_max = kernels_max;
  settings.resident_bytes_max = bytes_max;
  return settings;
}
kiln_launch_settings Strict(kiln_launch_settings settings = {}) {
  settings.strict = 1;
  return settings;
}
kiln_launch_settings Timed(kiln_launch_settings settings = {}) {
  settings.times_launches = 1;
  return settings;
}

// As errors of "k" begin.
auto StartsWithLabel(const std::string& rest) {
  return testing::MatchesRegex("kernel k \\(key [0-9a-f]{12}\\)" + rest + ".*");
}

class LauncherTest : public testing::Test {
 protected:
  LauncherTest() : launcher_(*CudaDriver::Open(fake_.path())) { fake_->MakeContext(); }
  ~LauncherTest() override {
    fake_->SetCurrent(nullptr);
    EXPECT_EQ(fake_->capture_mode(), 0) << "the thread's capture mode was not put back";
  }

  // A kernel of (x: *fp32, n: i32) with two hidden pointers.
  std::shared_ptr<Kernel> Open(const std::string& name, const std::string& patch = "{}",
                               int device = -1) {
    auto kernel = TryOpen(name, patch, device);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel.ok() ? *kernel : nullptr;
  }
  StatusOr<std::shared_ptr<Kernel>> TryOpen(const std::string& name,
                                            const std::string& patch = "{}", int device = -1) {
    fake_->Define(name, {.parameter_bytes = {8, 4, 8, 8}});
    return launcher_.Open(
        MadeArtifact(MadeDocument(name, {{"x", "*fp32"}, {"n", "i32"}}, patch), name), device);
  }
  LaunchCall Call(Stream stream = kStream) {
    LaunchCall call{};
    Assign(call.grid, {3, 1, 1});
    call.stream = stream;
    call.arguments = arguments_;
    call.argument_count = 2;
    return call;
  }
  Status Enqueue(const std::shared_ptr<Kernel>& kernel) {
    return launcher_.Enqueue(kernel, Call());
  }
  // That a graph with this launch refers to these buffers, with these words.
  void ExpectSeen(const std::shared_ptr<Kernel>& kernel, const void* const* arguments, size_t count,
                  const std::map<Address, std::string>& buffers) {
    LaunchCall call = Call();
    call.arguments = arguments;
    call.argument_count = count;
    fake_->BeginCapture(kStream);
    const Status status = launcher_.Enqueue(kernel, call);
    EXPECT_TRUE(status.ok()) << status.message();
    void* graph = fake_->EndCapture(kStream);
    for (const auto& [address, words] : buffers) {
      EXPECT_THAT(std::string(launcher_.graphs().CheckFree(address, 1).message()),
                  HasSubstr(words));
    }
    EXPECT_TRUE(launcher_.graphs().CheckFree(0, 1 << 20).ok()) << "a number is no address";
    fake_->DestroyGraph(graph);
  }
  void EnqueueOk(const std::shared_ptr<Kernel>& kernel) {
    const Status status = Enqueue(kernel);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // That `others` are through while the driver's function, which `waiter` calls in the context,
  // waits for what runs on the device.
  void ExpectNobodyWaits(const std::string& function, void* context,
                         const std::function<void()>& waiter, const std::function<void()>& others) {
    constexpr std::chrono::seconds kPatience(10);  // of a test that fails
    std::promise<void> begun;
    std::promise<void> through;
    bool has_waited = true;
    fake_->OnCall(function, [&] {
      if (fake_->Current() != context) return;
      fake_->OnCall(function, nullptr);
      begun.set_value();
      has_waited = through.get_future().wait_for(kPatience) != std::future_status::ready;
    });
    auto waiting = std::async(std::launch::async, waiter);
    if (begun.get_future().wait_for(kPatience) == std::future_status::ready) others();
    through.set_value();
    waiting.get();
    fake_->OnCall(function, nullptr);
    EXPECT_FALSE(has_waited) << "for " << function;
  }
  void PrepareOk(const std::shared_ptr<Kernel>& kernel) {
    const Status status = launcher_.Prepare(*kernel);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  template <typename T>
  static T As(const std::string& bytes) {
    T value{};
    EXPECT_EQ(bytes.size(), sizeof value);
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  static inline const Stream kStream = reinterpret_cast<Stream>(0x5000);
  FakeCudaLibrary fake_;
  Launcher launcher_;
  std::future<void> abandoned_;
  uint64_t x_ = 0x1000;
  int32_t n_ = -42;
  const void* arguments_[2] = {&x_, &n_};
};

TEST_F(LauncherTest, PassesArgumentsAndHiddenPointers) {
  EnqueueOk(Open("k"));
  ASSERT_EQ(fake_->launches().size(), 1u);
  const FakeLaunch launch = fake_->launches()[0];
  EXPECT_EQ(launch.kernel, "k");
  EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{3, 1, 1}));
  EXPECT_EQ(launch.block, (std::array<unsigned, 3>{128, 1, 1}));
  EXPECT_EQ(launch.shared_bytes, 1024u);
  EXPECT_EQ(launch.stream, kStream);
  EXPECT_TRUE(launch.attributes.empty());
  ASSERT_EQ(launch.arguments.size(), 4u);
  EXPECT_EQ(As<uint64_t>(launch.arguments[0]), 0x1000u);
  EXPECT_EQ(As<int32_t>(launch.arguments[1]), -42);
  EXPECT_EQ(As<uint64_t>(launch.arguments[2]), 0u);
  EXPECT_EQ(As<uint64_t>(launch.arguments[3]), 0u);
}

TEST_F(LauncherTest, OlderTritonHasOneHiddenPointer) {
  fake_->Define("old", {.parameter_bytes = {8, 4, 8}});
  const auto kernel =
      *launcher_.Open(MadeArtifact(MadeDocument("old", {{"x", "*fp32"}, {"n", "i32"}},
                                                R"({"hidden_pointers": 1})")),
                      -1);
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->launches()[0].arguments.size(), 3u);
}

TEST_F(LauncherTest, SetsTheAttributesOfTheLaunch) {
  EnqueueOk(Open("k", R"({"launch_pdl": true, "launch_cooperative_grid": true, "num_ctas": 16,
                          "cluster_dims": [16, 1, 1]})"));
  const FakeLaunch launch = fake_->launches()[0];
  EXPECT_EQ(launch.grid[0], 48u);
  ASSERT_EQ(launch.attributes.size(), 4u);
  EXPECT_EQ(launch.attributes.at(6)[0], 1u);                                // PDL
  EXPECT_EQ(launch.attributes.at(2)[0], 1u);                                // cooperative
  EXPECT_EQ(launch.attributes.at(4), (std::array<unsigned, 3>{16, 1, 1}));  // cluster
  EXPECT_EQ(launch.attributes.at(5)[0], 1u);                                // spread
  EXPECT_EQ(fake_->calls("cuFuncSetAttribute 14=1"), 1);                    // larger than portable
}

TEST_F(LauncherTest, OptsInToSharedMemoryOnceAtLoad) {
  const auto kernel = Open("k", R"({"shared_bytes": 100000})");
  EnqueueOk(kernel);
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->calls("cuFuncSetAttribute 8=232448"), 1);
}

TEST_F(LauncherTest, ASmallKernelMayHaveAsMuchSharedMemoryAsThereIs) {
  const auto kernel = Open("k", R"({"shared_bytes": 1024})");
  LaunchCall call = Call();
  for (const uint32_t bytes : {100000u, (227u << 10) - 1024}) {
    call.dynamic_shared_bytes = bytes;
    const Status status = launcher_.Enqueue(kernel, call);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(fake_->launches().back().shared_bytes, 1024 + bytes);
  }
  EXPECT_EQ(fake_->calls("cuFuncSetAttribute"), 1) << "for all launches";
  EXPECT_EQ(fake_->calls("cuFuncSetCacheConfig"), 0) << "which would cost it L1 cache";
  EnqueueOk(Open("large", R"({"shared_bytes": 100000})"));
  EXPECT_EQ(fake_->calls("cuFuncSetCacheConfig"), 1);
}

TEST_F(LauncherTest, APlainKernelsStaticSharedMemoryCounts) {
  fake_->Define("plain", {.parameter_bytes = {8, 4}, .static_shared_bytes = 4096});
  const auto kernel =
      *launcher_.Open(MadeArtifact(MadeDocument("plain", {{"x", "u64"}, {"n", "u32"}},
                                                R"({"hidden_pointers": 0, "shared_bytes": 4096})")),
                      -1);
  LaunchCall call = Call();
  call.dynamic_shared_bytes = (227 << 10) - 4096;
  EXPECT_TRUE(launcher_.Enqueue(kernel, call).ok());
  EXPECT_EQ(fake_->calls("cuFuncSetCacheConfig"), 0);
  ++call.dynamic_shared_bytes;
  EXPECT_THAT(std::string(launcher_.Enqueue(kernel, call).message()),
              HasSubstr("228353 bytes of shared memory besides its own 4096, Stand-in GPU has "
                        "232448 for a block"));
}

TEST_F(LauncherTest, AStreamWaitsForAnother) {
  const auto kernel = Open("k");
  const Status status = launcher_.Order(*kernel, kStream, reinterpret_cast<Stream>(0x6000));
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(fake_->calls("cuStreamWaitEvent 0x5000 after 0x6000"), 1);
  EXPECT_EQ(fake_->calls("cuEventDestroy"), 1);
  fake_->Fail("cuEventRecord", kOutOfMemory);
  const Status failed = launcher_.Order(*kernel, kStream, nullptr);
  EXPECT_EQ(failed.code(), Code::kResourceExhausted);
  EXPECT_THAT(std::string(failed.message()), StartsWithLabel(": cuEventRecord: CUDA_ERROR"));
  EXPECT_EQ(fake_->calls("cuEventDestroy"), 2);
}

TEST_F(LauncherTest, ErrorOfALostContextNamesTheKernel) {
  const auto kernel = Open("k");
  fake_->MakeContext();
  fake_->Fail("cuCtxPushCurrent", 1, 2);
  for (const Status& status :
       {launcher_.Order(*kernel, kStream, nullptr), launcher_.TimesOf(*kernel).status()}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWithLabel(": cuCtxPushCurrent: CUDA_ERROR"));
  }
}

TEST_F(LauncherTest, AnEmptyGridLaunchesNothingAndIsFine) {
  const auto kernel = Open("k");
  LaunchCall call = Call();
  Assign(call.grid, {5, 0, 1});
  EXPECT_TRUE(launcher_.Enqueue(kernel, call).ok());
  EXPECT_EQ(fake_->calls("cuLaunchKernelEx"), 0);
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(LauncherTest, ErrorsNameKernelKeyAndTheDriversWords) {
  const auto kernel = Open("k");
  fake_->Fail("cuLaunchKernelEx", 1);
  const Status status = Enqueue(kernel);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.driver_result(), 1);
  EXPECT_THAT(
      std::string(status.message()),
      testing::MatchesRegex("kernel k \\(key [0-9a-f]{12}\\): grid 3x1x1, block 128x1x1, "
                            "1024 bytes of dynamic shared memory: cuLaunchKernelEx: "
                            "CUDA_ERROR_INVALID_VALUE \\(1\\): what the driver says of it"));
}

TEST_F(LauncherTest, OpenRefusesAnotherArchitecture) {
  fake_->capability_major = 8;
  const auto kernel = TryOpen("k");
  EXPECT_EQ(kernel.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(std::string(kernel.status().message()),
              HasSubstr("compiled for cuda:90, but device 0 (Stand-in GPU) is cuda:80"));
}

TEST_F(LauncherTest, WithoutAContextADeviceMustBeNamed) {
  fake_->SetCurrent(nullptr);
  EXPECT_THAT(std::string(TryOpen("k").status().message()), HasSubstr("no context is current"));
  const auto kernel = Open("k", "{}", /*device=*/0);
  EXPECT_EQ(fake_->Current(), nullptr);
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->Current(), nullptr);
}

TEST_F(LauncherTest, KernelIsLoadedOnceInAContext) {
  const auto first = Open("k");
  const auto second = Open("k");
  EXPECT_EQ(first, second);
  EnqueueOk(first);
  EnqueueOk(second);
  EXPECT_EQ(fake_->calls("cuLibraryLoadData"), 1);
  fake_->MakeContext();
  const auto elsewhere = Open("k");
  EXPECT_NE(first, elsewhere);
  EnqueueOk(elsewhere);
  EXPECT_EQ(fake_->calls("cuLibraryLoadData"), 2);
}

TEST_F(LauncherTest, LaunchRunsInTheKernelsContext) {
  const auto kernel = Open("k");
  void* other = fake_->MakeContext();
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->Current(), other);
  EXPECT_EQ(fake_->calls("cuCtxPushCurrent"), 1);
}

TEST_F(LauncherTest, LaunchOfAPreparedKernelRunsInItsContext) {
  const auto kernel = Open("k");
  void* own = fake_->Current();
  EXPECT_TRUE(launcher_.Prepare(*kernel).ok());
  void* other = fake_->MakeContext();
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->launches().size(), 1u);
  EXPECT_EQ(fake_->Current(), other);
  fake_->SetCurrent(nullptr);
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->launches().size(), 2u);
  EXPECT_EQ(fake_->Current(), nullptr);
  fake_->SetCurrent(own);
}

TEST_F(LauncherTest, UnderCaptureNoLaunchIsTriedInTheWrongContext) {
  const auto kernel = Open("k");
  EXPECT_TRUE(launcher_.Prepare(*kernel).ok());
  fake_->MakeContext();
  fake_->BeginCapture(kStream);
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->calls("cuLaunchKernelEx"), 1);
  fake_->DestroyGraph(fake_->EndCapture(kStream));
}

TEST_F(LauncherTest, ALaunchThatFailsInItsOwnContextIsNotTriedAgain) {
  const auto kernel = Open("k");
  EXPECT_TRUE(launcher_.Prepare(*kernel).ok());
  fake_->Fail("cuLaunchKernelEx", 1);
  EXPECT_FALSE(Enqueue(kernel).ok());
  EXPECT_EQ(fake_->calls("cuLaunchKernelEx"), 1);
}

TEST_F(LauncherTest, APlainLaunchAsksTheDriverOneThing) {
  const auto kernel = Open("k");
  EnqueueOk(kernel);
  const int contexts = fake_->calls("cuCtxGetCurrent");
  const int captures = fake_->calls("cuStreamIsCapturing");
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->calls("cuCtxGetCurrent"), contexts);
  EXPECT_EQ(fake_->calls("cuStreamIsCapturing"), captures + 1);
}

TEST_F(LauncherTest, ThreadsShareOneLoad) {
  const auto kernel = Open("k");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) EnqueueOk(kernel);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_->calls("cuLibraryLoadData"), 1);
  EXPECT_EQ(fake_->launches().size(), 800u);
}

TEST_F(LauncherTest, TheLastCloseUnloads) {
  const auto kernel = Open("k");
  Open("k");
  EXPECT_TRUE(launcher_.Prepare(*kernel).ok());
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->loaded(), 1);
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(LauncherTest, StrictLaunchesNeverLoad) {
  launcher_.Configure(Strict());
  const auto kernel = Open("k");
  const Status status = Enqueue(kernel);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("prepare it in warm-up"));
  EXPECT_EQ(launcher_.Stats().refused_launches, 1u);
  ASSERT_TRUE(launcher_.Prepare(*kernel).ok());
  EnqueueOk(kernel);
  EXPECT_EQ(launcher_.Stats().loads_at_launch, 0u);
}

TEST_F(LauncherTest, LoadsAtLaunchAreCounted) {
  EnqueueOk(Open("k"));
  EXPECT_EQ(launcher_.Stats().loads_at_launch, 1u);
}

TEST_F(LauncherTest, TheLeastRecentlyLaunchedIsUnloadedAtTheLimitAndComesBack) {
  launcher_.Configure(Limits(2));
  const auto a = Open("a");
  const auto b = Open("b");
  const auto c = Open("c");
  EnqueueOk(a);
  EnqueueOk(b);
  EnqueueOk(a);
  EnqueueOk(c);  // instead of b
  EXPECT_EQ(fake_->loaded(), 2);
  EnqueueOk(a);
  EXPECT_EQ(launcher_.Stats().loads, 3u);
  EnqueueOk(b);  // again, instead of c
  EXPECT_EQ(launcher_.Stats().loads, 4u);
  EXPECT_EQ(launcher_.Stats().evictions, 2u);
  EXPECT_EQ(fake_->launches().size(), 6u);
}

TEST_F(LauncherTest, BoundsTheBytesOfLoadedKernels) {
  const auto a = Open("a");
  const uint64_t bytes = a->artifact().binary().size();
  launcher_.Configure(Limits(0, 2 * bytes));
  for (const char* name : {"b", "c", "d"}) EnqueueOk(Open(name));
  EXPECT_EQ(launcher_.Stats().resident_bytes, 2 * bytes);
  EXPECT_EQ(fake_->loaded(), 2);
}

// As one does while its stream's queue is full.
TEST_F(LauncherTest, AnUnloadWaitsForALaunchWithoutUsingACore) {
  const auto kernel = Open("k");
  EXPECT_TRUE(launcher_.Prepare(*kernel).ok());
  std::promise<void> entered;
  fake_->OnCall("cuLaunchKernelEx", [&] {
    entered.set_value();
    std::promise<void> never;
    never.get_future().wait_for(std::chrono::milliseconds(300));
  });
  auto launch = std::async(std::launch::async, [&] {
    fake_->SetCurrent(kernel->context());
    EnqueueOk(kernel);
  });
  entered.get_future().wait();
  launcher_.Configure(Limits(0, 1));
  const std::clock_t before = ThreadClock();
  launcher_.Trim();
  EXPECT_LT(ThreadClock() - before, CLOCKS_PER_SEC / 20);
  EXPECT_EQ(fake_->launches().size(), 1u) << "it was waited for";
  EXPECT_EQ(fake_->loaded(), 0);
  launch.get();
}

TEST_F(LauncherTest, LoadWithoutMemoryEvictsOneKernelAfterTheOther) {
  launcher_.Configure(Strict());
  const auto a = Open("a");
  const auto b = Open("b");
  const auto c = Open("c");
  fake_->libraries_max = 2;
  for (const auto& kernel : {a, b, c}) PrepareOk(kernel);
  EXPECT_EQ(launcher_.Stats().out_of_memory_loads, 1u);
  EXPECT_EQ(launcher_.Stats().evictions, 1u);
  EXPECT_EQ(Enqueue(a).code(), Code::kFailedPrecondition) << "it made room";
  EnqueueOk(b);
  EnqueueOk(c);
  const auto d = Open("d");
  fake_->Fail("cuLibraryLoadData", kOutOfMemory, 2);
  PrepareOk(d);
  EXPECT_EQ(launcher_.Stats().evictions, 3u);
  fake_->Fail("cuLibraryLoadData", kOutOfMemory, 2);
  EXPECT_EQ(launcher_.Prepare(*a).code(), Code::kResourceExhausted);
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(LauncherTest, LoadWithoutMemoryEvictsInItsOwnContextOnly) {
  fake_->libraries_max = 1;
  PrepareOk(Open("a"));
  fake_->MakeContext();
  PrepareOk(Open("a"));
  PrepareOk(Open("b"));
  EXPECT_EQ(launcher_.Stats().evictions, 1u);
  EXPECT_EQ(fake_->loaded(), 2);
  fake_->Fail("cuLibraryLoadData", kOutOfMemory, 2);
  EXPECT_EQ(launcher_.Prepare(*Open("c")).code(), Code::kResourceExhausted);
  EXPECT_EQ(fake_->loaded(), 1) << "the other context's";
}

TEST_F(LauncherTest, EachContextKeepsTheLimitsByItself) {
  launcher_.Configure(Limits(1));
  void* first = fake_->Current();
  const auto a = Open("a");
  PrepareOk(a);
  void* second = fake_->MakeContext();
  const auto elsewhere = Open("a");
  PrepareOk(elsewhere);
  EXPECT_EQ(launcher_.Stats().evictions, 0u);
  EXPECT_EQ(fake_->loaded(), 2);
  PrepareOk(Open("b"));  // instead of the one beside it
  EXPECT_EQ(launcher_.Stats().evictions, 1u);
  EXPECT_EQ(launcher_.Stats().kernels_resident, 2u);
  fake_->SetCurrent(first);
  EnqueueOk(a);
  EXPECT_EQ(launcher_.Stats().loads_at_launch, 0u);
  fake_->SetCurrent(second);
  EnqueueOk(elsewhere);
  EXPECT_EQ(launcher_.Stats().loads_at_launch, 1u);
}

TEST_F(LauncherTest, KernelOfADestroyedGraphIsUnloadedByItsOwnContextOrATrim) {
  const auto leave_behind = [&](const std::string& name) {
    const auto kernel = Open(name);
    fake_->BeginCapture(kStream);
    EnqueueOk(kernel);
    void* graph = fake_->EndCapture(kStream);
    launcher_.Close(*kernel);
    fake_->DestroyGraph(graph);
  };
  void* first = fake_->Current();
  leave_behind("a");
  fake_->MakeContext();
  PrepareOk(Open("b"));
  EXPECT_EQ(fake_->loaded(), 2);
  fake_->SetCurrent(first);
  PrepareOk(Open("c"));
  EXPECT_EQ(fake_->loaded(), 2) << "instead of a";
  leave_behind("d");
  EXPECT_EQ(fake_->loaded(), 3);
  launcher_.Trim();
  EXPECT_EQ(fake_->loaded(), 2);
}

// A collective, say, ends once its other half is launched on another device; a load waits for it.
TEST_F(LauncherTest, ALoadThatWaitsForItsDeviceHoldsUpNoOtherContext) {
  fake_->libraries_max = 1;
  void* first = fake_->Current();
  const auto a = Open("a");
  const auto b = Open("b");
  fake_->MakeContext();
  ExpectNobodyWaits(
      "cuLibraryLoadData", first, [&] { PrepareOk(a); },
      [&] {
        const auto other = Open("a");
        EnqueueOk(other);
        EXPECT_EQ(launcher_.Stats().loads, 1u);
        launcher_.Close(*other);
        launcher_.Trim();
        PrepareOk(Open("b"));
        PrepareOk(Open("c"));
        EXPECT_EQ(launcher_.Stats().evictions, 1u);
      });
  ExpectNobodyWaits(
      "cuLibraryUnload", first, [&] { PrepareOk(b); }, [&] { EnqueueOk(Open("d")); });
  EXPECT_EQ(launcher_.Stats().evictions, 3u);
}

TEST_F(LauncherTest, AnUnloadThatWaitsForItsDeviceHoldsUpNoOtherContext) {
  void* first = fake_->Current();
  const auto a = Open("a");
  const auto b = Open("b");
  PrepareOk(a);
  PrepareOk(b);
  fake_->MakeContext();
  const auto work = [&] {
    const auto other = Open("k");
    EnqueueOk(other);
    launcher_.Close(*other);
  };
  ExpectNobodyWaits(
      "cuLibraryUnload", first, [&] { launcher_.Close(*a); }, work);
  launcher_.Configure(Limits(0, 1));
  ExpectNobodyWaits(
      "cuLibraryUnload", first, [&] { launcher_.Trim(); }, work);
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(LauncherTest, LoadedKernelsLaunchDuringALoad) {
  const auto kernel = Open("k");
  const auto loaded = Open("a");
  PrepareOk(loaded);
  launcher_.Configure(Strict());
  ExpectNobodyWaits(
      "cuLibraryLoadData", fake_->Current(), [&] { PrepareOk(kernel); },
      [&] {
        PrepareOk(loaded);
        EnqueueOk(loaded);
        EXPECT_TRUE(launcher_.FactsOf(*loaded).ok());
        EXPECT_EQ(launcher_.FactsOf(*kernel).status().code(), Code::kFailedPrecondition);
        EXPECT_EQ(Enqueue(Open("b")).code(), Code::kFailedPrecondition)
            << "it has to wait for nothing";
        EXPECT_EQ(launcher_.Stats().kernels_open, 3u);
        launcher_.Trim();
      });
}

TEST_F(LauncherTest, CloseAndTrimWithNothingToUnloadDoNotWaitForALoad) {
  const auto kernel = Open("k");
  const auto never_loaded = Open("a");
  const auto pinned = Open("b");
  fake_->BeginCapture(kStream);
  EnqueueOk(pinned);
  void* graph = fake_->EndCapture(kStream);
  launcher_.Close(*pinned);
  launcher_.Configure(Limits(0, 1));
  ExpectNobodyWaits(
      "cuLibraryLoadData", fake_->Current(), [&] { PrepareOk(kernel); },
      [&] {
        launcher_.Close(*never_loaded);
        launcher_.Trim();
      });
  EXPECT_EQ(launcher_.Stats().kernels_open, 1u);
  fake_->DestroyGraph(graph);
}

TEST_F(LauncherTest, StrictRefusalDoesNotWaitForAnotherKernelsEviction) {
  const auto busy = Open("k");
  PrepareOk(busy);
  launcher_.Configure(Strict(Limits(1)));
  const auto wanted = Open("a");
  const auto refused = Open("b");
  std::thread evicting;
  ExpectNobodyWaits(
      "cuLaunchKernelEx", fake_->Current(), [&] { EnqueueOk(busy); },
      [&] {
        const int before = fake_->calls("cuCtxGetCurrent");
        evicting = std::thread([&, context = fake_->Current()] {
          fake_->SetCurrent(context);
          PrepareOk(wanted);
          fake_->SetCurrent(nullptr);
        });
        while (fake_->calls("cuCtxGetCurrent") == before) {
          std::this_thread::yield();
        }
        EXPECT_EQ(Enqueue(refused).code(), Code::kFailedPrecondition);
      });
  evicting.join();
  EXPECT_EQ(launcher_.Stats().evictions, 1u);
}

TEST_F(LauncherTest, KernelInUseIsEvictedLast) {
  launcher_.Configure(Limits(2));
  const auto busy = Open("k");
  const auto idle = Open("a");
  EnqueueOk(busy);
  EnqueueOk(idle);
  const auto wanted = Open("b");
  ExpectNobodyWaits(
      "cuLaunchKernelEx", fake_->Current(), [&] { EnqueueOk(busy); }, [&] { PrepareOk(wanted); });
  EXPECT_TRUE(launcher_.FactsOf(*busy).ok());
  EXPECT_FALSE(launcher_.FactsOf(*idle).ok());
}

TEST_F(LauncherTest, KernelReopenedDuringItsUnloadIsLoadedAgain) {
  const auto kernel = Open("k");
  PrepareOk(kernel);
  std::shared_ptr<Kernel> again;
  ExpectNobodyWaits(
      "cuLibraryUnload", fake_->Current(), [&] { launcher_.Close(*kernel); },
      [&] { again = Open("k"); });
  EXPECT_EQ(fake_->loaded(), 0);
  EnqueueOk(again);
  EXPECT_EQ(fake_->loaded(), 1);
  EXPECT_EQ(Open("k"), again);
  launcher_.Close(*again);
  launcher_.Close(*again);
  EXPECT_EQ(fake_->loaded(), 0);
  EXPECT_EQ(launcher_.Stats().kernels_open, 0u);
}

TEST_F(LauncherTest, KernelTooLargeForTheDeviceEvictsNothing) {
  EnqueueOk(Open("a"));
  const auto kernel = Open("k");
  fake_->Define("k", {.parameter_bytes = {8, 4, 8, 8}, .registers = 255, .threads_max = 64});
  EXPECT_EQ(Enqueue(kernel).code(), Code::kResourceExhausted);
  EXPECT_EQ(fake_->loaded(), 1) << "a, and k no more";
  EXPECT_EQ(fake_->calls("cuLibraryLoadData"), 2);
  EXPECT_EQ(launcher_.Stats().out_of_memory_loads, 0u);
}

TEST_F(LauncherTest, ManyThreadsUnderATightLimitAllLaunch) {
  launcher_.Configure(Limits(1));
  std::vector<std::shared_ptr<Kernel>> kernels;
  for (const char* name : {"a", "b", "c"}) kernels.push_back(Open(name));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (size_t j = 0; j < 100; ++j) EnqueueOk(kernels[(i + j) % kernels.size()]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_->launches().size(), 600u);
  EXPECT_EQ(fake_->loaded(), 1);
}

TEST_F(LauncherTest, ManyThreadsOpenLaunchAndCloseInSeveralContexts) {
  launcher_.Configure(Limits(1));
  void* const contexts[] = {fake_->Current(), fake_->MakeContext()};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      fake_->SetCurrent(contexts[i % 2]);
      for (size_t j = 0; j < 100; ++j) {
        const auto kernel = Open(std::string(1, static_cast<char>('a' + (i + j) % 3)));
        if (j % 4 == 0) PrepareOk(kernel);
        EnqueueOk(kernel);
        if (j % 8 == 0) launcher_.Trim();
        EXPECT_GE(launcher_.Stats().kernels_open, 1u);
        launcher_.Close(*kernel);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_->launches().size(), 600u);
  EXPECT_EQ(fake_->loaded(), 0);
  const kiln_launch_stats stats = launcher_.Stats();
  EXPECT_EQ(stats.kernels_open, 0u);
  EXPECT_EQ(stats.kernels_resident, 0u);
  EXPECT_EQ(stats.resident_bytes, 0u);
  EXPECT_EQ(stats.loads, stats.unloads);
}

TEST_F(LauncherTest, ABinaryThatDoesNotFitItsMetadataIsNotKept) {
  const auto kernel = Open("k");
  fake_->Define("k", {.parameter_bytes = {8, 4, 8}});
  EXPECT_THAT(std::string(Enqueue(kernel).message()), HasSubstr("do not belong together"));
  EXPECT_EQ(fake_->loaded(), 0);
}

TEST_F(LauncherTest, ScratchComesInStreamOrderAndGoes) {
  EnqueueOk(Open("k", R"({"global_scratch_bytes": 384, "global_scratch_align": 1024})"));
  const FakeLaunch launch = fake_->launches()[0];
  EXPECT_NE(As<uint64_t>(launch.arguments[2]), 0u);
  EXPECT_EQ(As<uint64_t>(launch.arguments[2]) % 1024, 0u);
  EXPECT_EQ(As<uint64_t>(launch.arguments[3]), 0u);
  EXPECT_EQ(fake_->allocated(), 0u);
}

TEST_F(LauncherTest, ScratchMayComeFromTheCaller) {
  struct Seen {
    uint64_t bytes = 0;
    uint64_t alignment = 0;
    uint64_t released = 0;
  } seen;
  kiln_launch_settings settings{};
  settings.scratch_user = &seen;
  settings.scratch_allocate = [](void* user, uint64_t bytes, uint64_t alignment,
                                 Stream) -> Address {
    *static_cast<Seen*>(user) = {bytes, alignment, 0};
    return 0xabc00;
  };
  settings.scratch_release = [](void* user, Address address, Stream) {
    static_cast<Seen*>(user)->released = address;
  };
  launcher_.Configure(settings);
  EnqueueOk(Open("k", R"({"profile_scratch_bytes": 8, "profile_scratch_align": 128})"));
  EXPECT_EQ(As<uint64_t>(fake_->launches()[0].arguments[3]), 0xabc00u);
  EXPECT_EQ(seen.bytes, 24u);
  EXPECT_EQ(seen.alignment, 128u);
  EXPECT_EQ(seen.released, 0xabc00u);
  EXPECT_EQ(fake_->calls("cuMemAllocAsync"), 0);
}

// The graph writes to it at each replay, and what was given back may be anybody's by then.
TEST_F(LauncherTest, ScratchOfACapturedLaunchIsNotTheCallers) {
  int asked = 0;
  kiln_launch_settings settings{};
  settings.scratch_user = &asked;
  settings.scratch_allocate = [](void* user, uint64_t, uint64_t, Stream) -> Address {
    ++*static_cast<int*>(user);
    return 0xabc00;
  };
  launcher_.Configure(settings);
  const auto kernel = Open("k", R"({"global_scratch_bytes": 384, "profile_scratch_bytes": 8})");
  fake_->BeginCapture(kStream);
  EnqueueOk(kernel);
  void* graph = fake_->EndCapture(kStream);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(fake_->calls("cuMemAllocAsync"), 2) << "the graph's own";
  EXPECT_EQ(fake_->calls("cuMemFreeAsync"), 2);
  EXPECT_NE(As<uint64_t>(fake_->launches()[0].arguments[2]), 0u);
  EnqueueOk(kernel);
  EXPECT_EQ(asked, 2);
  fake_->DestroyGraph(graph);
}

TEST_F(LauncherTest, ALaunchMayBringItsScratchAlsoUnderCapture) {
  const auto kernel = Open("k", R"({"global_scratch_bytes": 384, "profile_scratch_bytes": 8})");
  LaunchCall call = Call();
  call.global_scratch = 0xabc00;
  call.profile_scratch = 0xdef00;
  fake_->BeginCapture(kStream);
  ASSERT_TRUE(launcher_.Enqueue(kernel, call).ok());
  void* graph = fake_->EndCapture(kStream);
  EXPECT_EQ(As<uint64_t>(fake_->launches()[0].arguments[2]), 0xabc00u);
  EXPECT_EQ(As<uint64_t>(fake_->launches()[0].arguments[3]), 0xdef00u);
  EXPECT_EQ(fake_->calls("cuMemAllocAsync"), 0);
  EXPECT_EQ(launcher_.Stats().captured_launches, 1u);
  fake_->DestroyGraph(graph);
}

TEST_F(LauncherTest, FailedScratchAllocationFailsTheLaunch) {
  fake_->Fail("cuMemAllocAsync", kOutOfMemory);
  const Status status = Enqueue(Open("k", R"({"global_scratch_bytes": 384})"));
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1152 bytes of scratch"));
  EXPECT_EQ(fake_->calls("cuLaunchKernelEx"), 0);
}

TEST_F(LauncherTest, HooksSeeEachLaunch) {
  std::vector<std::string> seen;
  kiln_launch_settings settings{};
  settings.hook_user = &seen;
  settings.enter_hook = [](void* user, const kiln_launch_event* event) {
    static_cast<std::vector<std::string>*>(user)->push_back(std::string("enter ") + event->kernel);
  };
  settings.exit_hook = [](void* user, const kiln_launch_event* event) {
    static_cast<std::vector<std::string>*>(user)->push_back(event->code == 0 ? "exit" : "failed");
  };
  launcher_.Configure(settings);
  const auto kernel = Open("k");
  EnqueueOk(kernel);
  fake_->Fail("cuLaunchKernelEx", 1);
  EXPECT_FALSE(Enqueue(kernel).ok());
  EXPECT_THAT(seen, testing::ElementsAre("enter k", "exit", "enter k", "failed"));
}

TEST_F(LauncherTest, LaunchesAreTimedWhenAskedFor) {
  const auto kernel = Open("k");
  EnqueueOk(kernel);
  EXPECT_EQ(fake_->calls("cuEventRecord"), 0);
  launcher_.Configure(Timed());
  for (int i = 0; i < 3; ++i) EnqueueOk(kernel);
  const auto times = launcher_.TimesOf(*kernel);
  ASSERT_TRUE(times.ok()) << times.status().message();
  EXPECT_EQ(times->launches, 3u);
  EXPECT_EQ(times->dropped, 0u);
  EXPECT_FLOAT_EQ(static_cast<float>(times->total_ms), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(times->max_ms), 1);
}

TEST_F(LauncherTest, ALoadIsNotTimed) {
  const auto kernel = Open("k");
  launcher_.Configure(Timed());
  int recorded_before_load = -1;
  fake_->OnCall("cuLibraryLoadData", [&] { recorded_before_load = fake_->calls("cuEventRecord"); });
  EnqueueOk(kernel);
  EXPECT_EQ(recorded_before_load, 0);
  EXPECT_EQ(launcher_.TimesOf(*kernel)->launches, 1u);
}

TEST_F(LauncherTest, TimingManyLaunchesKeepsFewEvents) {
  const auto kernel = Open("k");
  launcher_.Configure(Timed());
  for (int i = 0; i < 5000; ++i) EnqueueOk(kernel);
  EXPECT_LE(fake_->calls("cuEventCreate"), 2100);
  EXPECT_EQ(launcher_.TimesOf(*kernel)->launches, 5000u);
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->calls("cuEventDestroy"), fake_->calls("cuEventCreate"));
}

TEST_F(LauncherTest, LaunchesGoOnWhileTimesAreWaitedFor) {
  const auto kernel = Open("k");
  launcher_.Configure(Timed());
  EnqueueOk(kernel);
  bool has_launched = false;
  fake_->OnCall("cuEventSynchronize", [&] {
    fake_->OnCall("cuEventSynchronize", nullptr);
    // The wait lasts until another thread has launched.
    void* context = fake_->Current();
    auto launch = std::async(std::launch::async, [&, context] {
      fake_->SetCurrent(context);
      EnqueueOk(kernel);
    });
    has_launched = launch.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    // Where it has to wait for the reader, this one must end before it can.
    if (!has_launched) abandoned_ = std::move(launch);
  });
  EXPECT_EQ(launcher_.TimesOf(*kernel)->launches, 1u);
  EXPECT_TRUE(has_launched);
  EXPECT_EQ(launcher_.TimesOf(*kernel)->launches, 2u);
}

TEST_F(LauncherTest, FailedMeasurementGivesItsEventsBack) {
  const auto kernel = Open("k");
  launcher_.Configure(Timed());
  EnqueueOk(kernel);
  fake_->Fail("cuLaunchKernelEx", 1);
  EXPECT_FALSE(Enqueue(kernel).ok());
  int records = 0;
  fake_->OnCall("cuEventRecord", [&] {
    // The second of a launch.
    if (++records == 2) fake_->Fail("cuEventRecord", 1);
  });
  EnqueueOk(kernel);
  const auto times = launcher_.TimesOf(*kernel);
  ASSERT_TRUE(times.ok()) << times.status().message();
  EXPECT_EQ(times->launches, 1u);
  EXPECT_EQ(times->dropped, 1u);
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->calls("cuEventDestroy"), fake_->calls("cuEventCreate"));
}

TEST_F(LauncherTest, EvictedKernelGivesItsEventsBackAtItsClose) {
  const auto kernel = Open("k");
  launcher_.Configure(Timed(Limits(1)));
  EnqueueOk(kernel);
  PrepareOk(Open("a"));
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->calls("cuEventCreate"), 2);
  EXPECT_EQ(fake_->calls("cuEventDestroy"), 2);
}

TEST_F(LauncherTest, TimesAreReadAgainAfterAFailedWait) {
  const auto kernel = Open("k");
  launcher_.Configure(Timed());
  EnqueueOk(kernel);
  EnqueueOk(kernel);
  fake_->Fail("cuEventSynchronize", 1);
  EXPECT_FALSE(launcher_.TimesOf(*kernel).ok());
  EXPECT_EQ(launcher_.TimesOf(*kernel)->launches, 2u);
}

// --- Capture ---

TEST_F(LauncherTest, LoadingAndLaunchingUnderCaptureDoNotEndIt) {
  const auto kernel = Open("k", R"({"global_scratch_bytes": 16})");
  fake_->BeginCapture(kStream);
  EnqueueOk(kernel);
  void* graph = fake_->EndCapture(kStream);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(fake_->ended_captures(), 0);
  fake_->DestroyGraph(graph);
}

TEST_F(LauncherTest, KernelOfALiveGraphStaysLoaded) {
  launcher_.Configure(Limits(1));
  const auto a = Open("a");
  const auto b = Open("b");
  fake_->BeginCapture(kStream);
  EnqueueOk(a);
  void* graph = fake_->EndCapture(kStream);
  EnqueueOk(b);
  EXPECT_EQ(fake_->loaded(), 2);
  launcher_.Close(*a);
  EXPECT_EQ(fake_->loaded(), 2);
  EXPECT_EQ(launcher_.Stats().live_graphs, 1u);
  fake_->DestroyGraph(graph);
  EXPECT_EQ(launcher_.Stats().live_graphs, 0u);
  EXPECT_EQ(fake_->loaded(), 2) << "the driver must not be called from its own callback";
  launcher_.Trim();
  EXPECT_EQ(fake_->loaded(), 1);
}

// A load finds no memory, nor once another has made room; while the next one that may go is looked
// for, a kernel is captured. It is the first that is looked at, and many more follow, so that this
// takes long enough.
TEST_F(LauncherTest, KernelCapturedDuringItsEvictionStaysLoaded) {
  std::vector<std::shared_ptr<Kernel>> kernels;
  for (int i = 0; i < 2000; ++i) kernels.push_back(Open(fmt::format("k{}", i)));
  std::sort(kernels.begin(), kernels.end(),
            [](const auto& a, const auto& b) { return a->artifact().id() < b->artifact().id(); });
  int broken = 0;
  for (size_t i = 0; i < 300; ++i) {
    for (const size_t loaded : {1 + i % 2, size_t{0}}) {
      ASSERT_TRUE(launcher_.Prepare(*kernels[loaded]).ok());
    }
    std::atomic<int> tries = 0;
    fake_->OnCall("cuLibraryLoadData", [&] { ++tries; });
    fake_->Fail("cuLibraryLoadData", kOutOfMemory, 2);
    fake_->BeginCapture(kStream);
    // It fails where all that is left is captured by then.
    std::thread evictor([&] { static_cast<void>(launcher_.Prepare(*kernels[2 - i % 2])); });
    while (tries < 2) std::this_thread::yield();
    EnqueueOk(kernels[0]);
    void* graph = fake_->EndCapture(kStream);
    evictor.join();
    fake_->OnCall("cuLibraryLoadData", nullptr);
    broken += fake_->IsRunnable(graph) ? 0 : 1;
    fake_->DestroyGraph(graph);
  }
  EXPECT_EQ(broken, 0) << "graphs whose code was unloaded";
}

TEST_F(LauncherTest, ALoadUnderCaptureUnloadsNothing) {
  launcher_.Configure(Limits(1));
  EnqueueOk(Open("a"));
  fake_->BeginCapture(kStream);
  EnqueueOk(Open("b"));
  EXPECT_EQ(fake_->calls("cuLibraryUnload"), 0);
  EXPECT_EQ(launcher_.Stats().unloads_put_off, 1u);
  void* graph = fake_->EndCapture(kStream);
  ASSERT_NE(graph, nullptr);
  launcher_.Trim();
  EXPECT_EQ(fake_->loaded(), 1);
  fake_->DestroyGraph(graph);
}

TEST_F(LauncherTest, UnloadingBesideACaptureDoesNotEndIt) {
  const auto kernel = Open("a");
  EnqueueOk(kernel);
  fake_->BeginCapture(kStream);
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->loaded(), 0);
  void* graph = fake_->EndCapture(kStream);
  ASSERT_NE(graph, nullptr);
  fake_->DestroyGraph(graph);
}

TEST_F(LauncherTest, ACaptureDoesNotWaitForWorkOutsideIt) {
  const auto kernel = Open("k");
  const auto other = reinterpret_cast<Stream>(0x6000);
  const auto captures_elsewhere = reinterpret_cast<Stream>(0x7000);
  fake_->BeginCapture(kStream);
  fake_->BeginCapture(captures_elsewhere);
  for (const Stream producer : {other, captures_elsewhere, Stream{nullptr}}) {
    const Status status = launcher_.Order(*kernel, kStream, producer);
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << producer;
    EXPECT_EQ(fake_->ended_captures(), 0) << producer;
  }
  const Status refused = launcher_.Order(*kernel, kStream, other);
  EXPECT_THAT(std::string(refused.message()), StartsWithLabel(": stream 0x5000 cannot wait for"));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("have its work done before the capture begins"));
  EXPECT_EQ(launcher_.Order(*kernel, nullptr, kStream).code(), Code::kFailedPrecondition);
  // A stream that captures nothing is ordered beside a capture.
  EXPECT_TRUE(launcher_.Order(*kernel, reinterpret_cast<Stream>(0x8000), other).ok());
  EXPECT_EQ(fake_->calls("cuStreamWaitEvent"), 1);
  for (const Stream stream : {kStream, captures_elsewhere}) {
    void* graph = fake_->EndCapture(stream);
    ASSERT_NE(graph, nullptr);
    fake_->DestroyGraph(graph);
  }
}

TEST_F(LauncherTest, ACaptureForksAndJoins) {
  const auto kernel = Open("k");
  const auto other = reinterpret_cast<Stream>(0x6000);
  fake_->BeginCapture(kStream);
  const Status forked = launcher_.Order(*kernel, other, kStream);
  EXPECT_TRUE(forked.ok()) << forked.message();
  EXPECT_TRUE(launcher_.Enqueue(kernel, Call(other)).ok());
  EXPECT_EQ(launcher_.Stats().live_graphs, 1u) << "the other stream captures, too";
  const Status joined = launcher_.Order(*kernel, kStream, other);
  EXPECT_TRUE(joined.ok()) << joined.message();
  void* graph = fake_->EndCapture(kStream);
  ASSERT_NE(graph, nullptr);
  fake_->DestroyGraph(graph);
}

TEST_F(LauncherTest, ALaunchOnTheNullStreamDoesNotEndAnothersCapture) {
  const auto kernel = Open("k");
  EnqueueOk(kernel);
  fake_->BeginCapture(kStream);
  const Status status = launcher_.Enqueue(kernel, Call(nullptr));
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(fake_->launches().size(), 1u);
  fake_->DestroyGraph(fake_->EndCapture(kStream));
}

TEST_F(LauncherTest, CapturedLaunchesAreNotTimed) {
  launcher_.Configure(Timed());
  const auto kernel = Open("k");
  fake_->BeginCapture(kStream);
  EnqueueOk(kernel);
  fake_->DestroyGraph(fake_->EndCapture(kStream));
  EXPECT_EQ(fake_->calls("cuEventRecord"), 0);
}

TEST_F(LauncherTest, ABufferOfALiveGraphMustNotBeFreed) {
  const auto kernel = Open("k");
  fake_->BeginCapture(kStream);
  ASSERT_TRUE(launcher_.graphs().Name(kStream, "decode").ok());
  EnqueueOk(kernel);
  ASSERT_TRUE(launcher_.graphs().AddBuffer(kStream, {0x9000, 0x100, "buffer weights"}).ok());
  void* graph = fake_->EndCapture(kStream);
  const auto check = [&](Address begin, uint64_t bytes) {
    return launcher_.graphs().CheckFree(begin, bytes);
  };
  EXPECT_THAT(std::string(check(0xf00, 0x200).message()),
              testing::MatchesRegex("0xf00 must not be freed: argument x of kernel k \\(key .*\\) "
                                    "\\(at 0x1000\\) is used by decode, which is still there; "
                                    "destroy that first"));
  EXPECT_EQ(check(0x90ff, 1).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(check(0x9100, 0x100).ok());
  EXPECT_TRUE(check(0x1001, 0x100).ok());
  EXPECT_EQ(check(0x9000, ~uint64_t{0}).code(), Code::kFailedPrecondition);
  fake_->DestroyGraph(graph);
  EXPECT_TRUE(check(0xf00, 0x200).ok());
}

// The pointers of a plain kernel are numbers, and may be parts of a struct.
TEST_F(LauncherTest, BuffersOfPlainKernelsAreFoundInArgumentBytes) {
  fake_->Define("plain", {.parameter_bytes = {8, 8, 24}});
  const auto kernel = launcher_.Open(
      MadeArtifact(MadeDocument("plain", {{"p", "u64"}, {"n", "b64"}, {"s", "b8[24]"}},
                                R"({"hidden_pointers": 0})")),
      -1);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const uint64_t p = 0x7f0000001000, n = 42, s[] = {3, 0x7f0000003000, 0};
  const void* arguments[] = {&p, &n, s};
  ExpectSeen(*kernel, arguments, 3, {{0x7f0000001000, "argument p of"}, {s[1], "argument s of"}});
}

TEST_F(LauncherTest, ADescriptorsTensorIsABufferOfTheGraph) {
  fake_->Define("tma", {.parameter_bytes = {128, 4, 8, 8, 8}});
  const auto kernel =
      launcher_.Open(MadeArtifact(MadeDocument(
                         "tma", {{"a", "!tt.tensordesc<tensor<8xf32>>"}, {"", "i32"}, {"", "i64"}},
                         R"({"tensor_descriptors": [{"swizzle": 1, "elem_size": 4, "elem_type": 7,
                                      "block_size": [8], "fp4_padded": false}]})")),
                     -1);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const auto descriptor =
      TensorDescriptor::Make(launcher_.driver(), (*kernel)->artifact().metadata(), 0,
                             {sizeof(kiln_launch_tensor), 1, 0x7f0000001000, {64}, {1}, 0, 0});
  ASSERT_TRUE(descriptor.ok()) << descriptor.status().message();
  ExpectSeen(*kernel, (*descriptor)->arguments().data(), 3,
             {{0x7f0000001000, "argument a of kernel tma"}});
}

TEST_F(LauncherTest, BuffersAreAddedUnderCaptureOnly) {
  EXPECT_EQ(launcher_.graphs().AddBuffer(kStream, {0x9000, 1, "x"}).code(),
            Code::kFailedPrecondition);
}

TEST_F(LauncherTest, AGraphThatTheDriverDoesNotWatchCountsAsLive) {
  fake_->Fail("cuUserObjectCreate", 801);
  const auto kernel = Open("k");
  fake_->BeginCapture(kStream);
  EnqueueOk(kernel);
  fake_->DestroyGraph(fake_->EndCapture(kStream));
  launcher_.Close(*kernel);
  EXPECT_EQ(fake_->loaded(), 1);
}

}  // namespace
}  // namespace kiln::launch
