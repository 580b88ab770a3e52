// Kernels that need memory besides their arguments: descriptors that programs make for themselves.
#include <atomic>
#include <set>
#include <thread>

#include "tests/gpu/launch/fixture.h"

namespace kiln::gpu {
namespace {

// Sums of matrices, whose last tiles are not whole.
class DescriptorAdd {
 public:
  static constexpr int32_t kRows = 200;
  static constexpr int32_t kColumns = 336;
  DescriptorAdd(const std::vector<float>& x, const std::vector<float>& y)
      : x_(x), y_(y), out_(x.size()), expected_(x.size()) {
    for (size_t i = 0; i < x.size(); ++i) expected_[i] = x[i] + y[i];
  }
  std::vector<const void*> arguments() const {
    return {x_.argument(), y_.argument(), out_.argument(), &kRows, &kColumns};
  }
  void Clear() { GPU(cuMemsetD8_v2(out_.address(), 0xff, out_.bytes())); }
  bool IsRight() const { return out_.Read() == expected_; }

 private:
  Buffer<float> x_, y_, out_;
  std::vector<float> expected_;
};

class ScratchTest : public GpuTest {
 protected:
  static constexpr size_t kCount =
      static_cast<size_t>(DescriptorAdd::kRows) * DescriptorAdd::kColumns;
  static kiln_launch_config Grid(Handle stream) {
    return Config((DescriptorAdd::kRows + 15) / 16, (DescriptorAdd::kColumns + 63) / 64, stream);
  }
  void SetUp() override {
    if (!IsAtLeast(90)) Skip("descriptors need no memory where there is no TMA: cuda:90");
    kernel_ = Open("device_descriptor_add");
  }
  kiln_launch_kernel* kernel_ = nullptr;
};

TEST_F(ScratchTest, TheKernelAsksForIt) {
  kiln_launch_artifact* artifact = nullptr;
  ASSERT_LAUNCH_OK(
      kiln_launch_artifact_open_json(JsonOf(CaseName("device_descriptor_add")).c_str(), &artifact));
  kiln_launch_artifact_info info{};
  info.size = sizeof info;
  ASSERT_LAUNCH_OK(kiln_launch_artifact_get_info(artifact, &info));
  std::printf("  %llu bytes of global scratch for each program\n",
              static_cast<unsigned long long>(info.global_scratch_bytes));
  EXPECT_GT(info.global_scratch_bytes, 0u);
  kiln_launch_artifact_close(artifact);
}

TEST_F(ScratchTest, FromTheDriversStreamOrderedMemory) {
  DescriptorAdd add(Random(kCount), Random(kCount));
  OwnStream stream;
  for (Handle of : {stream.get(), Handle(nullptr)}) {
    add.Clear();
    for (int i = 0; i < 100; ++i) {
      ASSERT_LAUNCH_OK(Enqueue(kernel_, Grid(of), add.arguments()));
    }
    EXPECT_TRUE(add.IsRight());
  }
}

TEST_F(ScratchTest, FromTheCallersAllocator) {
  struct Allocator {
    std::set<DevicePointer> live;
    uint64_t bytes = 0;
    int released = 0;
  } allocator;
  kiln_launch_settings settings{};
  settings.scratch_user = &allocator;
  settings.scratch_allocate = [](void* user, uint64_t bytes, uint64_t, void*) -> uint64_t {
    DevicePointer address = 0;
    GPU(cuMemAlloc_v2(&address, bytes));
    static_cast<Allocator*>(user)->live.insert(address);
    static_cast<Allocator*>(user)->bytes = bytes;
    return address;
  };
  settings.scratch_release = [](void* user, uint64_t address, void*) {
    ++static_cast<Allocator*>(user)->released;
    EXPECT_TRUE(static_cast<Allocator*>(user)->live.contains(address));
  };
  Configure(settings);
  OwnStream stream;
  const DescriptorAdd add(Random(kCount), Random(kCount));
  ASSERT_LAUNCH_OK(Enqueue(kernel_, Grid(stream.get()), add.arguments()));
  EXPECT_TRUE(add.IsRight());
  EXPECT_EQ(allocator.live.size(), 1u);
  EXPECT_EQ(allocator.released, 1);
  EXPECT_EQ(allocator.bytes % (13 * 6), 0u) << "so much for each program of the grid";
  for (const DevicePointer address : allocator.live) GPU(cuMemFree_v2(address));
}

TEST_F(ScratchTest, CapturedLaunchUsesScratchOfItsGraph) {
  DescriptorAdd add(Random(kCount), Random(kCount));
  OwnStream stream;
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  for (const CaptureMode mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    BeginCapture(stream, mode);
    EXPECT_LAUNCH_OK(Enqueue(kernel_, Grid(stream.get()), add.arguments()));
    EXPECT_LAUNCH_OK(Enqueue(kernel_, Grid(stream.get()), add.arguments()));
    Handle captured = EndCapture(stream);
    ASSERT_NE(captured, nullptr) << "mode " << int(mode);
    const Graph graph(captured);
    for (int i = 0; i < 3; ++i) {
      add.Clear();
      graph.Run(stream);
      EXPECT_TRUE(add.IsRight());
    }
  }
}

// An allocator that gives what came back to whoever asks next, as those of frameworks do.
TEST_F(ScratchTest, CapturedLaunchDoesNotUseTheCallersAllocator) {
  const Buffer<uint8_t> pool(size_t{64} << 20);
  const DevicePointer pool_address = pool.address();
  kiln_launch_settings settings{};
  settings.scratch_user = const_cast<DevicePointer*>(&pool_address);
  settings.scratch_allocate = [](void* user, uint64_t bytes, uint64_t, void*) -> uint64_t {
    return bytes <= size_t{64} << 20 ? *static_cast<DevicePointer*>(user) : 0;
  };
  settings.scratch_release = [](void*, uint64_t, void*) {};
  Configure(settings);
  DescriptorAdd add(Random(kCount), Random(kCount));
  OwnStream stream;
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  BeginCapture(stream, CaptureMode::kGlobal);
  EXPECT_LAUNCH_OK(Enqueue(kernel_, Grid(stream.get()), add.arguments()));
  Handle captured = EndCapture(stream);
  ASSERT_NE(captured, nullptr);
  const Graph graph(captured);
  // Somebody else has it by now.
  GPU(cuMemsetD8_v2(pool.address(), 0x5a, pool.bytes()));
  add.Clear();
  graph.Run(stream);
  EXPECT_TRUE(add.IsRight());
  EXPECT_EQ(pool.Read(), std::vector<uint8_t>(pool.bytes(), 0x5a)) << "a replay wrote to it";
}

TEST_F(ScratchTest, BesideACaptureOnAnotherStream) {
  DescriptorAdd captured_add(Random(kCount), Random(kCount));
  const DescriptorAdd add(Random(kCount), Random(kCount));
  OwnStream capturing, running;
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  for (const bool is_other_thread : {false, true}) {
    BeginCapture(capturing, CaptureMode::kGlobal);
    EXPECT_LAUNCH_OK(Enqueue(kernel_, Grid(capturing.get()), captured_add.arguments()));
    kiln_launch_code code = -1;
    const auto run = [&] {
      EnterGpu();
      code = Enqueue(kernel_, Grid(running.get()), add.arguments());
    };
    if (is_other_thread) {
      std::thread(run).join();
    } else {
      run();
    }
    Handle captured = EndCapture(capturing);
    ASSERT_NE(captured, nullptr);
    EXPECT_EQ(code, KILN_LAUNCH_OK);
    const Graph graph(captured);
    captured_add.Clear();
    graph.Run(capturing);
    EXPECT_TRUE(captured_add.IsRight());
    EXPECT_TRUE(add.IsRight());
  }
}

TEST_F(ScratchTest, FromEightThreadsAtOnce) {
  const auto x = Random(kCount), y = Random(kCount);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      EnterGpu();
      OwnStream stream;
      const DescriptorAdd add(x, y);
      for (int j = 0; j < 200; ++j) {
        if (Enqueue(kernel_, Grid(stream.get()), add.arguments()) != 0) return;
      }
      stream.Wait();
      right += add.IsRight();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
}

}  // namespace
}  // namespace kiln::gpu
