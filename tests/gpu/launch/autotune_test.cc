// Autotuning: what is timed, what is kept, what is refused.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "tests/gpu/launch/fixture.h"
#include "tests/gpu/launch/tuned_matmul.h"

namespace kiln::gpu {
namespace {

// A table in this process, in the place of the daemon.
class TableStore {
 public:
  TableStore() {
    store_.size = sizeof store_;
    store_.user = this;
    store_.find = [](void* user, const void* key, uint64_t key_bytes, void* value,
                     uint64_t capacity) {
      const auto& entries = static_cast<TableStore*>(user)->entries_;
      const auto found = entries.find({static_cast<const char*>(key), key_bytes});
      if (found == entries.end() || found->second.size() > capacity) return uint64_t{0};
      std::copy(found->second.begin(), found->second.end(), static_cast<char*>(value));
      return uint64_t{found->second.size()};
    };
    store_.put = [](void* user, const void* key, uint64_t key_bytes, const void* value,
                    uint64_t value_bytes) {
      static_cast<TableStore*>(user)->entries_[{static_cast<const char*>(key), key_bytes}] = {
          static_cast<const char*>(value), value_bytes};
    };
  }
  const kiln_launch_tuning_store* get() const { return &store_; }
  size_t size() const { return entries_.size(); }

 private:
  kiln_launch_tuning_store store_{};
  std::map<std::string, std::string> entries_;
};

class AutotuneTest : public GpuTest {
 protected:
  static kiln_launch_candidate CandidateOf(kiln_launch_kernel* kernel,
                                           const kiln_launch_config& config,
                                           const std::vector<const void*>& arguments) {
    return {sizeof(kiln_launch_candidate), static_cast<uint32_t>(arguments.size()), kernel, &config,
            arguments.data()};
  }
  kiln_launch_code Tune(const std::vector<kiln_launch_candidate>& candidates,
                        kiln_launch_autotune_options options) {
    options.size = sizeof options;
    tuned_.assign(candidates.size(), {});
    for (kiln_launch_tuned& one : tuned_) one.size = sizeof one;
    return kiln_launch_autotune(runtime_, candidates.data(),
                                static_cast<uint32_t>(candidates.size()), &options, tuned_.data(),
                                &fastest_);
  }
  size_t CountTimed() const {
    return static_cast<size_t>(std::count_if(tuned_.begin(), tuned_.end(), [](const auto& one) {
      return one.code == KILN_LAUNCH_OK && one.is_stored == 0;
    }));
  }

  std::vector<kiln_launch_tuned> tuned_;
  uint32_t fastest_ = 9999;
};

TEST_F(AutotuneTest, EighteenMatmulsOnceAndNeverAgain) {
  TunedMatmul matmul(1024, 2048, 512);
  for (const TunedMatmul::Tile& tile : TunedMatmul::Tiles()) matmul.Add(tile, Open(tile.name));
  TableStore store;
  auto options = matmul.Options();
  options.store = store.get();
  ASSERT_LAUNCH_OK(Tune(matmul.candidates(), options));
  EXPECT_EQ(CountTimed(), 18u);
  EXPECT_EQ(store.size(), 18u);
  for (size_t i = 0; i < tuned_.size(); ++i) {
    std::printf("  %-32s %.4f ms (%.4f to %.4f, %u runs)%s\n", TunedMatmul::Tiles()[i].name.c_str(),
                tuned_[i].median_ms, tuned_[i].low_ms, tuned_[i].high_ms, tuned_[i].runs,
                i == fastest_ ? " fastest" : "");
    EXPECT_GT(tuned_[i].median_ms, 0);
    EXPECT_GE(tuned_[i].median_ms, tuned_[fastest_].median_ms);
  }
  matmul.Clear();
  ASSERT_LAUNCH_OK(matmul.Enqueue(fastest_));
  EXPECT_LE(matmul.WorstError(), 2e-3);

  const auto loads = Stats().loads;
  const uint32_t fastest = fastest_;
  ASSERT_LAUNCH_OK(Tune(matmul.candidates(), options));
  EXPECT_EQ(CountTimed(), 0u);
  EXPECT_EQ(fastest_, fastest);
  EXPECT_EQ(Stats().loads, loads);
}

TEST_F(AutotuneTest, AnAddedConfigurationIsTheOnlyOneTimed) {
  TunedMatmul matmul(512, 512, 512);
  for (const TunedMatmul::Tile& tile : TunedMatmul::Tiles()) matmul.Add(tile, Open(tile.name));
  TableStore store;
  auto options = matmul.Options();
  options.store = store.get();
  options.repeat_ms = options.warmup_ms = 5;
  auto most = matmul.candidates();
  most.pop_back();
  ASSERT_LAUNCH_OK(Tune(most, options));
  EXPECT_EQ(CountTimed(), 17u);
  ASSERT_LAUNCH_OK(Tune(matmul.candidates(), options));
  EXPECT_EQ(CountTimed(), 1u);
  EXPECT_EQ(tuned_.back().is_stored, 0u);
}

TEST_F(AutotuneTest, RestoresBuffersThatAKernelOverwrites) {
  const auto x = Random(VectorAdd::kCount), y = Random(VectorAdd::kCount);
  const Buffer<float> x_buffer(x), y_buffer(y);
  // x += y, in place.
  const std::vector<const void*> arguments = {x_buffer.argument(), y_buffer.argument(),
                                              x_buffer.argument(), &VectorAdd::kCount};
  const auto config = Config(VectorAdd::kPrograms);
  const kiln_launch_range reads[] = {{x_buffer.address(), x_buffer.bytes()},
                                     {y_buffer.address(), y_buffer.bytes()}};
  kiln_launch_autotune_options options{};
  options.reads = reads;
  options.read_count = 2;
  options.writes = reads;
  options.write_count = 1;
  OwnStream stream;
  for (Handle of : {Handle(nullptr), stream.get()}) {
    options.stream = of;
    ASSERT_LAUNCH_OK(Tune({CandidateOf(Open("vector_add"), config, arguments)}, options));
    EXPECT_TRUE(x_buffer.Read() == x);
    EXPECT_TRUE(y_buffer.Read() == y);
  }
  std::printf("  in place: %.4f ms, %u runs\n", tuned_[0].median_ms, tuned_[0].runs);
}

TEST_F(AutotuneTest, WaitsForPendingCopiesIntoTheBuffers) {
  const auto x = Random(VectorAdd::kCount), y = Random(VectorAdd::kCount);
  const Buffer<float> x_buffer(VectorAdd::kCount), y_buffer(y);
  const Buffer<float> staging(x);
  const Buffer<char> large(size_t{1} << 30);
  OwnStream stream;
  const std::vector<const void*> arguments = {x_buffer.argument(), y_buffer.argument(),
                                              x_buffer.argument(), &VectorAdd::kCount};
  const auto config = Config(VectorAdd::kPrograms);
  const kiln_launch_range range = {x_buffer.address(), x_buffer.bytes()};
  kiln_launch_autotune_options options{};
  options.reads = options.writes = &range;
  options.read_count = options.write_count = 1;
  options.stream = stream.get();
  kiln_launch_kernel* kernel = Open("vector_add");
  // Milliseconds of work before x is what it is.
  for (int i = 0; i < 20; ++i) {
    GPU(cuMemsetD8Async(large.address(), 1, large.bytes(), stream.get()));
  }
  GPU(cuMemcpyDtoDAsync_v2(x_buffer.address(), staging.address(), x_buffer.bytes(), stream.get()));
  ASSERT_LAUNCH_OK(Tune({CandidateOf(kernel, config, arguments)}, options));
  EXPECT_TRUE(x_buffer.Read() == x);
}

TEST_F(AutotuneTest, RangesAreWhatTheDriverSaysTheyAre) {
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  const auto config = Config(VectorAdd::kPrograms);
  const auto arguments = add.arguments();
  const std::vector<kiln_launch_candidate> candidates = {
      CandidateOf(Open("vector_add"), config, arguments)};
  kiln_launch_range range = {add.x(), uint64_t{1} << 40};
  kiln_launch_autotune_options options{};
  options.reads = &range;
  options.read_count = 1;
  EXPECT_EQ(Tune(candidates, options), KILN_LAUNCH_INVALID_ARGUMENT);
  std::printf("  %s\n", kiln_launch_error());
  int on_the_host = 0;
  range = {reinterpret_cast<uint64_t>(&on_the_host), sizeof on_the_host};
  EXPECT_EQ(Tune(candidates, options), KILN_LAUNCH_INVALID_ARGUMENT);
  std::printf("  %s\n", kiln_launch_error());
}

// Over the seams of four pieces.
TEST_F(AutotuneTest, MemoryThatIsMappedInPiecesIsPutBackToo) {
  const MappedMemory memory(4);
  const auto count = static_cast<int32_t>(memory.bytes() / sizeof(float));
  const auto x = Random(static_cast<size_t>(count));
  GPU(cuMemcpyHtoD_v2(memory.address(), x.data(), memory.bytes()));
  // x += x.
  const std::vector<const void*> arguments = {memory.argument(), memory.argument(),
                                              memory.argument(), &count};
  const auto config = Config(static_cast<uint32_t>((count + 1023) / 1024));
  kiln_launch_range range = {memory.address(), memory.bytes()};
  kiln_launch_autotune_options options{};
  options.reads = options.writes = &range;
  options.read_count = options.write_count = 1;
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(Tune({CandidateOf(kernel, config, arguments)}, options));
  std::vector<float> after(x.size());
  GPU(cuCtxSynchronize());
  GPU(cuMemcpyDtoH_v2(after.data(), memory.address(), memory.bytes()));
  EXPECT_TRUE(after == x);
  range.bytes += 4;
  EXPECT_EQ(Tune({CandidateOf(kernel, config, arguments)}, options), KILN_LAUNCH_INVALID_ARGUMENT);
  std::printf("  %s\n", kiln_launch_error());
}

// The driver puts allocations one directly behind the other, and copies nothing from one into the
// next.
TEST_F(AutotuneTest, NeighbouringAllocationsArePutBack) {
  constexpr size_t kBytes = size_t{2} << 20;
  constexpr int32_t kCount = kBytes / sizeof(float);
  std::vector<std::unique_ptr<Buffer<float>>> buffers;
  for (int i = 0; i < 16; ++i) buffers.push_back(std::make_unique<Buffer<float>>(kCount));
  const auto by_address = [](const auto& a, const auto& b) { return a->address() < b->address(); };
  std::sort(buffers.begin(), buffers.end(), by_address);
  const auto pair = std::adjacent_find(
      buffers.begin(), buffers.end(),
      [](const auto& a, const auto& b) { return a->address() + kBytes == b->address(); });
  ASSERT_NE(pair, buffers.end()) << "no two of 16 allocations are neighbours";
  Buffer<float>&x = **pair, &y = **std::next(pair);
  const auto before_x = Random(kCount), before_y = Random(kCount);
  x.Write(before_x);
  y.Write(before_y);
  const kiln_launch_range ranges[] = {{x.address(), kBytes}, {y.address(), kBytes}};
  kiln_launch_autotune_options options{};
  options.reads = options.writes = ranges;
  options.read_count = options.write_count = 2;
  kiln_launch_kernel* kernel = Open("vector_add");
  const auto config = Config(kCount / 1024);
  // y += x, and x += y.
  const std::vector<const void*> one = {x.argument(), y.argument(), y.argument(), &kCount};
  const std::vector<const void*> other = {x.argument(), y.argument(), x.argument(), &kCount};
  ASSERT_LAUNCH_OK(
      Tune({CandidateOf(kernel, config, one), CandidateOf(kernel, config, other)}, options));
  EXPECT_TRUE(x.Read() == before_x);
  EXPECT_TRUE(y.Read() == before_y);
}

TEST_F(AutotuneTest, LeavesOutAConfigurationThatCannotBeLaunched) {
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  const auto arguments = add.arguments();
  auto impossible = Config(1 << 20);
  impossible.cooperative = 1;  // so many blocks are never resident at once
  const auto config = Config(VectorAdd::kPrograms);
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(
      Tune({CandidateOf(kernel, impossible, arguments), CandidateOf(nullptr, config, arguments),
            CandidateOf(kernel, config, arguments)},
           {}));
  EXPECT_EQ(fastest_, 2u);
  EXPECT_EQ(tuned_[0].code, KILN_LAUNCH_RESOURCE_EXHAUSTED);
  std::printf("  %s\n", tuned_[0].reason);
  EXPECT_TRUE(add.IsRight());
}

TEST_F(AutotuneTest, LessWorkIsFaster) {
  const VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  const auto arguments = add.arguments();
  const auto all = Config(VectorAdd::kPrograms), again = Config(VectorAdd::kPrograms, 200);
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(
      Tune({CandidateOf(kernel, again, arguments), CandidateOf(kernel, all, arguments)}, {}));
  EXPECT_EQ(fastest_, 1u);
  EXPECT_LT(tuned_[1].high_ms, tuned_[0].low_ms);
}

TEST_F(AutotuneTest, IsRefusedUnderCaptureWhichGoesOn) {
  VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  const auto arguments = add.arguments();
  OwnStream stream;
  const auto config = Config(VectorAdd::kPrograms, 1, stream.get());
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel));
  kiln_launch_autotune_options options{};
  options.stream = stream.get();
  for (const CaptureMode mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    BeginCapture(stream, mode);
    EXPECT_LAUNCH_OK(Enqueue(kernel, config, arguments));
    EXPECT_EQ(Tune({CandidateOf(kernel, config, arguments)}, options),
              KILN_LAUNCH_FAILED_PRECONDITION);
    Handle captured = EndCapture(stream);
    ASSERT_NE(captured, nullptr) << "it ended the capture, mode " << int(mode);
    const Graph graph(captured);
    add.Clear();
    graph.Run(stream);
    EXPECT_TRUE(add.IsRight());
  }
  std::printf("  %s\n", kiln_launch_error());
}

// A capture of another, non-blocking stream is none of a tuning's business, nor is it the other way
// round.
TEST_F(AutotuneTest, ACaptureElsewhereGoesOn) {
  VectorAdd add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  const VectorAdd tuned_add(Random(VectorAdd::kCount), Random(VectorAdd::kCount));
  const auto arguments = tuned_add.arguments();
  OwnStream capturing, tuning;
  const auto config = Config(VectorAdd::kPrograms, 1, capturing.get());
  kiln_launch_kernel* kernel = Open("vector_add");
  ASSERT_LAUNCH_OK(kiln_launch_prepare(kernel));
  kiln_launch_autotune_options options{};
  options.stream = tuning.get();
  options.warmup_ms = options.repeat_ms = 5;
  for (const CaptureMode mode :
       {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    for (const bool is_other_thread : {false, true}) {
      BeginCapture(capturing, mode);
      EXPECT_LAUNCH_OK(Enqueue(kernel, config, add.arguments()));
      kiln_launch_code code = -1;
      std::string error;
      const auto run = [&] {
        EnterGpu();
        code = Tune({CandidateOf(kernel, config, arguments)}, options);
        error = kiln_launch_error();
      };
      if (is_other_thread) {
        std::thread(run).join();
      } else {
        run();
      }
      Handle captured = EndCapture(capturing);
      std::printf("  mode %d, %s thread: tuning %d, capture %s\n", int(mode),
                  is_other_thread ? "other" : "same", code, captured == nullptr ? "ended" : "ok");
      EXPECT_EQ(code, KILN_LAUNCH_OK) << error;
      ASSERT_NE(captured, nullptr);
      const Graph graph(captured);
      add.Clear();
      graph.Run(capturing);
      EXPECT_TRUE(add.IsRight());
    }
  }
}

}  // namespace
}  // namespace kiln::gpu
