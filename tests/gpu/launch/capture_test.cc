// Under stream capture: what ends it, what does not, and what graphs keep alive.
#include <chrono>
#include <functional>
#include <thread>

#include "tests/gpu/launch/fixture.h"

namespace kiln::gpu {
namespace {

using namespace std::chrono_literals;

class CaptureTest : public GpuTest {
 protected:
  CaptureTest()
      : add_(Random(VectorAdd::kCount), Random(VectorAdd::kCount)), kernel_(Open("vector_add")) {}

  kiln_launch_code EnqueueAdd() {
    return Enqueue(kernel_, Config(VectorAdd::kPrograms, 1, stream_.get()), add_.arguments());
  }
  void ExpectReplayIsRight(Handle captured) {
    ASSERT_NE(captured, nullptr) << "something ended the capture";
    const Graph graph(captured);
    add_.Clear();
    graph.Run(stream_);
    EXPECT_TRUE(add_.IsRight());
  }

  OwnStream stream_;
  VectorAdd add_;
  kiln_launch_kernel* kernel_;
};

TEST_F(CaptureTest, ReplayUsesWhatTheBuffersHoldThen) {
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  BeginCapture(stream_, CaptureMode::kGlobal);
  EXPECT_LAUNCH_OK(EnqueueAdd());
  const Graph graph(EndCapture(stream_));
  for (int i = 0; i < 3; ++i) {
    add_.Write(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
    add_.Clear();
    graph.Run(stream_);
    EXPECT_TRUE(add_.IsRight());
  }
}

// What a job may do beside or inside a capture, in each mode, on the same and on another thread.
TEST_F(CaptureTest, Matrix) {
  struct Action {
    const char* name;
    std::function<kiln_launch_code()> run;
    kiln_launch_code code = KILN_LAUNCH_OK;
  };
  kiln_launch_kernel* other = nullptr;
  OwnStream other_stream, third_stream;
  const int32_t rows = 0, columns = 16, stride = 16;
  const Action actions[] = {
      {"prepare", [&] { return kiln_launch_prepare(other); }},
      {"launch of what is not loaded, on another stream",
       [&] {
         const uint64_t nowhere = 0;
         return Enqueue(other, Config(1, 1, other_stream.get()),
                        {&nowhere, &nowhere, &stride, &stride, &rows, &columns});
       }},
      {"close, which unloads",
       [&] {
         const auto code = kiln_launch_prepare(other);
         Close(other);
         other = nullptr;
         return code;
       }},
      {"trim", [&] { return kiln_launch_trim(runtime_); }},
      {"another stream waits for a third",
       [&] { return kiln_launch_stream_wait(kernel_, other_stream.get(), third_stream.get()); }},
      {"the capturing stream waits for another",
       [&] { return kiln_launch_stream_wait(kernel_, stream_.get(), other_stream.get()); },
       KILN_LAUNCH_FAILED_PRECONDITION},
      {"the capturing stream waits for the NULL stream",
       [&] { return kiln_launch_stream_wait(kernel_, stream_.get(), nullptr); },
       KILN_LAUNCH_FAILED_PRECONDITION},
      {"the NULL stream waits for the capturing stream",
       [&] { return kiln_launch_stream_wait(kernel_, nullptr, stream_.get()); },
       KILN_LAUNCH_FAILED_PRECONDITION},
  };
  for (const CaptureMode mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    for (const bool is_other_thread : {false, true}) {
      for (const Action& action : actions) {
        other = Open("softmax");
        BeginCapture(stream_, mode);
        EXPECT_LAUNCH_OK(EnqueueAdd());
        kiln_launch_code code = -1;
        std::string error;
        const auto run = [&] {
          EnterGpu();
          code = action.run();
          error = kiln_launch_error();
        };
        if (is_other_thread) {
          std::thread(run).join();
        } else {
          run();
        }
        EXPECT_EQ(code, action.code) << action.name << ": " << error;
        SCOPED_TRACE(std::string(action.name) + ", mode " + std::to_string(int(mode)) +
                     (is_other_thread ? ", other thread" : ", same thread"));
        ExpectReplayIsRight(EndCapture(stream_));
        std::printf("  %-50s mode %d %s: %s\n", action.name, int(mode),
                    is_other_thread ? "other thread" : "same thread ",
                    HasFailure() ? "see above" : "ok");
        other_stream.Wait();
        if (other != nullptr) Close(other);
      }
    }
  }
}

TEST_F(CaptureTest, ForksToAnotherStreamAndJoinsIt) {
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  OwnStream other;
  BeginCapture(stream_, CaptureMode::kGlobal);
  EXPECT_LAUNCH_OK(kiln_launch_stream_wait(kernel_, other.get(), stream_.get()));
  EXPECT_LAUNCH_OK(
      Enqueue(kernel_, Config(VectorAdd::kPrograms, 1, other.get()), add_.arguments()));
  EXPECT_LAUNCH_OK(kiln_launch_stream_wait(kernel_, stream_.get(), other.get()));
  ExpectReplayIsRight(EndCapture(stream_));
}

// Whichever is the least recently used goes, but not what the graph launches.
TEST_F(CaptureTest, AnEvictionBesideACaptureDoesNotEndIt) {
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  kiln_launch_kernel* idle = Open("layer_norm_forward");
  kiln_launch_kernel* other = Open("softmax");
  for (const CaptureMode mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    for (const bool is_other_thread : {false, true}) {
      Configure({});
      ASSERT_LAUNCH_OK(kiln_launch_prepare(idle));
      kiln_launch_settings settings{};
      settings.resident_kernels_max = 2;
      Configure(settings);
      BeginCapture(stream_, mode);
      EXPECT_LAUNCH_OK(EnqueueAdd());
      const auto evictions = Stats().evictions;
      kiln_launch_code code = -1;
      std::string error;
      const auto run = [&] {
        EnterGpu();
        code = kiln_launch_prepare(other);
        error = kiln_launch_error();
      };
      if (is_other_thread) {
        std::thread(run).join();
      } else {
        run();
      }
      EXPECT_EQ(code, KILN_LAUNCH_OK) << error;
      EXPECT_EQ(Stats().evictions, evictions + 1);
      SCOPED_TRACE("mode " + std::to_string(int(mode)) +
                   (is_other_thread ? ", other thread" : ", same thread"));
      ExpectReplayIsRight(EndCapture(stream_));
      std::swap(idle, other);
    }
  }
}

TEST_F(CaptureTest, TheFirstLaunchLoadsUnderCapture) {
  const auto loads = Stats().loads_at_launch;
  BeginCapture(stream_, CaptureMode::kGlobal);
  EXPECT_LAUNCH_OK(EnqueueAdd());
  ExpectReplayIsRight(EndCapture(stream_));
  EXPECT_EQ(Stats().loads_at_launch, loads + 1);
}

TEST_F(CaptureTest, AGraphKeepsItsKernelLoadedUntilItIsDestroyed) {
  BeginCapture(stream_, CaptureMode::kGlobal);
  ASSERT_LAUNCH_OK(EnqueueAdd());
  Handle captured = EndCapture(stream_);
  ASSERT_NE(captured, nullptr);
  {
    const Graph graph(captured);
    Close(kernel_);
    EXPECT_LAUNCH_OK(kiln_launch_trim(runtime_));
    EXPECT_EQ(Stats().kernels_resident, 1u);
    EXPECT_EQ(Stats().live_graphs, 1u);
    add_.Clear();
    graph.Run(stream_);
    EXPECT_TRUE(add_.IsRight());
  }
  EXPECT_TRUE(GraphsAreGone()) << "the driver did not tell that the graph is gone";
  EXPECT_LAUNCH_OK(kiln_launch_trim(runtime_));
  EXPECT_EQ(Stats().kernels_resident, 0u);
}

TEST_F(CaptureTest, AnInstantiatedGraphOutlivesTheOneItCameFrom) {
  BeginCapture(stream_, CaptureMode::kGlobal);
  ASSERT_LAUNCH_OK(EnqueueAdd());
  Handle captured = EndCapture(stream_);
  Handle exec = nullptr;
  GPU(cuGraphInstantiateWithFlags(&exec, captured, 0));
  GPU(cuGraphDestroy(captured));
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(Stats().live_graphs, 1u);
  GPU(cuGraphExecDestroy(exec));
  EXPECT_TRUE(GraphsAreGone());
}

// An update puts the new graph's launches in the place of the old one's, and what each of them
// holds goes with it.
TEST_F(CaptureTest, AnUpdatedGraphHoldsWhatItWasUpdatedFrom) {
  VectorAdd later(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  const auto is_held = [&](const VectorAdd& add) {
    return kiln_launch_check_free(runtime_, add.x(), 1) == KILN_LAUNCH_FAILED_PRECONDITION;
  };
  BeginCapture(stream_, CaptureMode::kGlobal);
  ASSERT_LAUNCH_OK(EnqueueAdd());
  Handle first = EndCapture(stream_);
  Handle exec = nullptr;
  GPU(cuGraphInstantiateWithFlags(&exec, first, 0));
  GPU(cuGraphDestroy(first));
  BeginCapture(stream_, CaptureMode::kGlobal);
  ASSERT_LAUNCH_OK(
      Enqueue(kernel_, Config(VectorAdd::kPrograms, 1, stream_.get()), later.arguments()));
  Handle second = EndCapture(stream_);
  EXPECT_TRUE(is_held(add_) && is_held(later));
  struct {
    int result;
    Handle node, from;
  } info{};
  GPU(cuGraphExecUpdate_v2(exec, second, &info));
  GPU(cuGraphDestroy(second));
  for (int i = 0; i < 500 && is_held(add_); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(is_held(add_)) << "the graph before the update is still there";
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(is_held(later)) << "the updated graph is no more thought to be there";
  EXPECT_EQ(Stats().live_graphs, 1u);
  later.Clear();
  GPU(cuGraphLaunch(exec, stream_.get()));
  stream_.Wait();
  EXPECT_TRUE(later.IsRight());
  GPU(cuGraphExecDestroy(exec));
  EXPECT_TRUE(GraphsAreGone());
}

TEST_F(CaptureTest, FreeingABufferOfALiveGraphIsAnErrorWithAName) {
  BeginCapture(stream_, CaptureMode::kGlobal);
  ASSERT_LAUNCH_OK(kiln_launch_graph_set_name(runtime_, stream_.get(), "decode"));
  ASSERT_LAUNCH_OK(EnqueueAdd());
  {
    const Graph graph(EndCapture(stream_));
    EXPECT_EQ(kiln_launch_check_free(runtime_, add_.x(), 4096), KILN_LAUNCH_FAILED_PRECONDITION);
    std::printf("  %s\n", kiln_launch_error());
    EXPECT_NE(std::string(kiln_launch_error()).find("x_ptr"), std::string::npos);
    EXPECT_NE(std::string(kiln_launch_error()).find("decode"), std::string::npos);
  }
  EXPECT_TRUE(GraphsAreGone());
  EXPECT_LAUNCH_OK(kiln_launch_check_free(runtime_, add_.x(), 4096));
}

TEST_F(CaptureTest, ALaunchOnTheNullStreamDoesNotEndTheCapture) {
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel_));
  Handle blocking = nullptr;
  GPU(cuStreamCreate(&blocking, 0));
  GPU(cuStreamBeginCapture_v2(blocking, 0));
  const auto code = Enqueue(kernel_, Config(VectorAdd::kPrograms), add_.arguments());
  std::printf("  %s\n", kiln_launch_error());
  EXPECT_EQ(code, KILN_LAUNCH_FAILED_PRECONDITION);
  Handle graph = nullptr;
  EXPECT_EQ(Gpu().cuStreamEndCapture(blocking, &graph), 0);
  GPU(cuGraphDestroy(graph));
  GPU(cuStreamDestroy_v2(blocking));
}

}  // namespace
}  // namespace kiln::gpu
