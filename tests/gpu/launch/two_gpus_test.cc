// A process that has two GPUs: what the library does on one waits for nothing that runs on the
// other (docs/adr/0050). Skipped where there is one.
#include <atomic>

#include "tests/gpu/launch/fixture.h"

namespace kiln::gpu {
namespace {

using std::chrono::milliseconds;

// A GPU's primary context, current on this thread while this lives.
class Inside {
 public:
  explicit Inside(int device) : device_(device) {
    GPU(cuCtxGetCurrent(&before_));
    Handle context = nullptr;
    GPU(cuDevicePrimaryCtxRetain(&context, device));
    GPU(cuCtxSetCurrent(context));
  }
  ~Inside() {
    Gpu().cuCtxSetCurrent(before_);
    Gpu().cuDevicePrimaryCtxRelease_v2(device_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const int device_;
  Handle before_ = nullptr;
};

class TwoGpusTest : public GpuTest {
 protected:
  // Ends by itself long before a check is given up, so that a failure is one and no hang.
  static constexpr uint64_t kHoldNanoseconds = 15'000'000'000;

  void SetUp() override {
    int count = 0;
    GPU(cuDeviceGetCount(&count));
    if (count < 2) GTEST_SKIP() << "  needs two GPUs";
    // The second's, for as long as the process runs: it would be made anew each time.
    GPU(cuDevicePrimaryCtxRetain(&second_, 1));
    GPU(cuMemHostAlloc(&word_, sizeof(uint32_t), /*PORTABLE*/ 1));
    hold_ = Open("hold_ptx");
  }
  void TearDown() override {
    if (word_ != nullptr) Gpu().cuMemFreeHost(word_);
  }

  // Occupies the first GPU, whose stream it is, until LetGo.
  void Hold(const OwnStream& stream) {
    const Inside inside(0);
    std::atomic_ref(*static_cast<uint32_t*>(word_)).store(0);
    kiln_launch_config config = Config(1, 1, stream.get());
    config.block[0] = config.block[1] = config.block[2] = 1;
    const uint32_t bytes[] = {8, 8};
    config.argument_bytes = bytes;
    EXPECT_LAUNCH_OK(Enqueue(hold_, config, {&word_, &kHoldNanoseconds}));
  }
  void LetGo() { std::atomic_ref(*static_cast<uint32_t*>(word_)).store(1); }
  static bool Runs(const OwnStream& stream) {
    constexpr Result kNotReady = 600;
    return Gpu().cuStreamQuery(stream.get()) == kNotReady;
  }

  Handle second_ = nullptr;
  void* word_ = nullptr;
  kiln_launch_kernel* hold_ = nullptr;
};

TEST_F(TwoGpusTest, ALoadOnOneIsNotHeldUpByALoadThatWaitsOnTheOther) {
  kiln_launch_kernel* softmax = Open("softmax");
  const OwnStream first;
  const Inside second(1);
  kiln_launch_kernel* vector_add = Open("vector_add", 1);
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  Hold(first);
  std::atomic<bool> is_loaded = false;
  std::thread waits([&] {
    const Inside inside(0);
    EXPECT_LAUNCH_OK(kiln_launch_prepare(softmax));
    is_loaded = true;
  });
  std::this_thread::sleep_for(milliseconds(300));
  std::printf("  a load on the GPU that is busy %s\n", is_loaded ? "did not wait" : "waits");
  EXPECT_LAUNCH_OK(Enqueue(vector_add, Config(VectorAdd::kPrograms), add.arguments()));
  EXPECT_TRUE(add.IsRight());
  EXPECT_TRUE(Runs(first)) << "the second GPU's load waited for the first GPU";
  LetGo();
  waits.join();
  first.Wait();
  EXPECT_TRUE(is_loaded);
}

TEST_F(TwoGpusTest, AnEvictionOnOneLeavesTheOtherAlone) {
  ASSERT_LAUNCH_OK(kiln_launch_prepare(hold_));
  kiln_launch_settings settings{};
  settings.resident_kernels_max = 1;
  Configure(settings);
  const OwnStream first;
  const Inside second(1);
  kiln_launch_kernel* vector_add = Open("vector_add", 1);
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  Hold(first);
  const auto before = Stats();
  for (const char* name : {"softmax", "layer_norm_forward"}) {
    EXPECT_LAUNCH_OK(kiln_launch_prepare(Open(name, 1)));
    EXPECT_LAUNCH_OK(Enqueue(vector_add, Config(VectorAdd::kPrograms), add.arguments()));
  }
  EXPECT_TRUE(add.IsRight());
  EXPECT_TRUE(Runs(first)) << "an eviction on the second GPU waited for the first GPU";
  EXPECT_EQ(Stats().evictions - before.evictions, 3u);
  EXPECT_EQ(Stats().kernels_resident, 2u) << "one on each";
  const auto loads = Stats().loads;
  LetGo();
  first.Wait();
  Hold(first);
  LetGo();
  first.Wait();
  EXPECT_EQ(Stats().loads, loads) << "the first GPU's kernel was unloaded by the second's";
}

TEST_F(TwoGpusTest, AKernelRunsOnBothFromEightThreads) {
  kiln_launch_kernel* const vector_add[] = {Open("vector_add", 0), Open("vector_add", 1)};
  const std::vector<float> x = Random(VectorAdd::kCount), y = Random(VectorAdd::kCount);
  const auto before = Stats();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, device = i % 2] {
      const Inside inside(device);
      const OwnStream stream;
      const VectorAdd add(x, y);
      for (int round = 0; round < 50; ++round) {
        EXPECT_LAUNCH_OK(Enqueue(vector_add[device], Config(VectorAdd::kPrograms, 1, stream.get()),
                                 add.arguments()));
      }
      EXPECT_TRUE(add.IsRight());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Stats().loads - before.loads, 2u) << "once on each GPU";
}

}  // namespace
}  // namespace kiln::gpu
