#include "client/launch/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "client/launch/driver/cuda_driver.h"
#include "client/launch/tuning_record.h"
#include "tests/testing/launch/fake_cuda.h"
#include "tests/testing/launch/launch_artifacts.h"

namespace kiln::launch {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr int kNoMemory = 2;
constexpr int kIllegalAddress = 700;
constexpr int kLaunchFailed = 719;

// A table that outlives processes.
class TableStore {
 public:
  kiln_launch_tuning_store callbacks() {
    return {sizeof(kiln_launch_tuning_store), 0,
            [](void* user, const void* key, uint64_t key_bytes, void* value, uint64_t capacity) {
              const auto& entries = static_cast<TableStore*>(user)->table;
              const auto found = entries.find({static_cast<const char*>(key), key_bytes});
              if (found == entries.end() || found->second.size() > capacity) return uint64_t{0};
              std::memcpy(value, found->second.data(), found->second.size());
              return uint64_t{found->second.size()};
            },
            [](void* user, const void* key, uint64_t key_bytes, const void* value,
               uint64_t value_bytes) {
              static_cast<TableStore*>(user)->table[{static_cast<const char*>(key), key_bytes}] = {
                  static_cast<const char*>(value), value_bytes};
            },
            this};
  }
  std::map<std::string, std::string> table;
};

class TunerTest : public testing::Test {
 protected:
  TunerTest() : launcher_(*CudaDriver::Open(fake_.path())), tuner_(launcher_) {
    fake_->MakeContext();
    request_.stream = kStream;
    request_.problem = "n=4";
    request_.timing.flush_bytes = 4096;
  }
  ~TunerTest() override {
    fake_->SetCurrent(nullptr);
    EXPECT_EQ(fake_->capture_mode(), 0) << "the thread's capture mode was not put back";
    EXPECT_EQ(fake_->allocated(), 0u) << "memory was not given back";
  }

  // A kernel of (x: *fp32, n: i32).
  Candidate Make(const std::string& name, FakeKernel facts) {
    facts.parameter_bytes = {8, 4, 8, 8};
    fake_->Define(name, facts);
    const auto kernel =
        launcher_.Open(MadeArtifact(MadeDocument(name, {{"x", "*fp32"}, {"n", "i32"}}), name), -1);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    Candidate candidate;
    candidate.kernel = *kernel;
    for (uint32_t& length : candidate.call.grid) length = 1;
    candidate.call.arguments = arguments_;
    candidate.call.argument_count = 2;
    return candidate;
  }
  Candidate Taking(const std::string& name, float ms) { return Make(name, {.milliseconds = ms}); }

  StatusOr<size_t> Tune(const std::vector<Candidate>& candidates) {
    return tuner_.Tune(candidates, request_, results_);
  }
  size_t TuneOk(const std::vector<Candidate>& candidates) {
    const auto fastest = Tune(candidates);
    EXPECT_TRUE(fastest.ok()) << fastest.status().message();
    return fastest.ok() ? *fastest : 9999;
  }
  void ExpectRefused(const std::vector<Candidate>& candidates, Code code, const char* words) {
    const auto fastest = Tune(candidates);
    EXPECT_EQ(fastest.status().code(), code);
    EXPECT_THAT(std::string(fastest.status().message()), HasSubstr(words));
    EXPECT_THAT(fake_->launches(), SizeIs(0));
  }
  // What x leads to, read and written by every launch.
  void ReadAndWrite(const std::string& content) {
    x_ = fake_->MakeBuffer(content);
    request_.reads = request_.writes = {{x_, content.size()}};
  }
  // Adds one to the first byte, after it has shown what it found.
  FakeKernel Adding(std::vector<char>& seen, float ms = 10) {
    FakeKernel kernel{.milliseconds = ms};
    kernel.body = [this, &seen](const std::vector<std::string>&) {
      const std::string found = fake_->Read(x_, 1);
      seen.push_back(found[0]);
      fake_->Write(x_, std::string(1, static_cast<char>(found[0] + 1)));
    };
    return kernel;
  }

  static inline const Stream kStream = reinterpret_cast<Stream>(0x5000);
  FakeCudaLibrary fake_;
  Launcher launcher_;
  Tuner tuner_;
  TableStore store_;
  TuningRequest request_;
  std::vector<CandidateResult> results_;
  uint64_t x_ = 0x1000;
  int32_t n_ = 4;
  const void* arguments_[2] = {&x_, &n_};
};

TEST_F(TunerTest, TheFastestByItsMedian) {
  EXPECT_EQ(TuneOk({Taking("slow", 3), Taking("fast", 1), Taking("middle", 2)}), 1u);
  ASSERT_THAT(results_, SizeIs(3));
  EXPECT_FLOAT_EQ(static_cast<float>(results_[0].times.median_ms), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(results_[1].times.low_ms), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(results_[2].times.high_ms), 2);
}

TEST_F(TunerTest, RunsAsOftenAsDoBenchDoes) {
  TuneOk({Taking("k", 2)});
  // One to see whether it runs, five for the estimate, 25 ms of warm-up, 100 ms that count.
  EXPECT_THAT(fake_->launches(), SizeIs(1 + 5 + 12 + 50));
  EXPECT_EQ(results_[0].times.runs, 50u);
  EXPECT_EQ(fake_->calls("cuMemsetD8Async"), 55) << "flushes of the L2 cache";
  EXPECT_EQ(fake_->calls("cuEventCreate"), fake_->calls("cuEventDestroy"));
  EXPECT_EQ(fake_->launches().back().stream, kStream);
}

TEST_F(TunerTest, LongRunsAreFewAndShortRunsAreBounded) {
  TuneOk({Taking("long", 400), Taking("short", 1e-5f)});
  EXPECT_EQ(results_[0].times.runs, 1u);
  EXPECT_EQ(results_[1].times.runs, 1000u);
}

TEST_F(TunerTest, PercentilesFallBetweenValues) {
  const RunTimes times = Summarize({5, 1, 2, 4, 3, 6});
  EXPECT_DOUBLE_EQ(times.median_ms, 3.5);
  EXPECT_DOUBLE_EQ(times.low_ms, 2);
  EXPECT_DOUBLE_EQ(times.high_ms, 5);
  EXPECT_DOUBLE_EQ(Summarize({7}).high_ms, 7);
}

TEST_F(TunerTest, CandidateThatDoesNotRunIsLeftOutWithItsReason) {
  Candidate empty = Taking("empty", 1);
  empty.call.grid[1] = 0;
  Candidate wrong = Taking("wrong", 1);
  wrong.call.argument_count = 1;
  const Candidate too_large = Make("large", {.milliseconds = 1, .launch_result = 701});
  EXPECT_EQ(TuneOk({{}, empty, wrong, too_large, Taking("good", 5)}), 4u);
  EXPECT_THAT(std::string(results_[0].status.message()), HasSubstr("no kernel"));
  EXPECT_THAT(std::string(results_[1].status.message()), HasSubstr("grid is empty"));
  EXPECT_THAT(std::string(results_[2].status.message()), HasSubstr("1 arguments, it takes 2"));
  EXPECT_EQ(results_[3].status.code(), Code::kResourceExhausted);
  EXPECT_THAT(std::string(results_[3].status.message()), HasSubstr("kernel large"));
  EXPECT_TRUE(results_[4].status.ok());
}

TEST_F(TunerTest, WhenNoCandidateRunsTheFirstErrorIsReturned) {
  ExpectRefused({Make("large", {.launch_result = 701}), {}}, Code::kResourceExhausted,
                "none of 2 candidates runs; the first: kernel large");
  ExpectRefused({{}}, Code::kFailedPrecondition, "it has no kernel");
  ExpectRefused({}, Code::kInvalidArgument, "no candidates");
}

TEST_F(TunerTest, KernelsOfSeveralContextsAreRefused) {
  const Candidate here = Taking("here", 1);
  fake_->MakeContext();
  ExpectRefused({here, Taking("there", 1)}, Code::kInvalidArgument, "several contexts");
}

// --- The store ---

TEST_F(TunerTest, ASecondProcessTimesNothing) {
  request_.store = store_.callbacks();
  const std::vector<Candidate> candidates = {Taking("slow", 3), Taking("fast", 1)};
  EXPECT_EQ(TuneOk(candidates), 1u);
  EXPECT_THAT(store_.table, SizeIs(2));
  const size_t launches = fake_->launches().size();
  Tuner second(launcher_);
  const auto fastest = second.Tune(candidates, request_, results_);
  ASSERT_TRUE(fastest.ok());
  EXPECT_EQ(*fastest, 1u);
  EXPECT_TRUE(results_[0].is_stored && results_[1].is_stored);
  EXPECT_NEAR(results_[0].times.median_ms, 3, 1e-6);
  EXPECT_THAT(fake_->launches(), SizeIs(launches));
}

TEST_F(TunerTest, AnAddedCandidateKeepsTheStoredTimesOfOthers) {
  request_.store = store_.callbacks();
  std::vector<Candidate> candidates = {Taking("a", 2), Taking("b", 4)};
  TuneOk(candidates);
  const size_t launches = fake_->launches().size();
  candidates.insert(candidates.begin(), Taking("c", 1));
  EXPECT_EQ(TuneOk(candidates), 0u);
  EXPECT_FALSE(results_[0].is_stored);
  EXPECT_TRUE(results_[1].is_stored && results_[2].is_stored);
  const auto all = fake_->launches();
  for (size_t i = launches; i < all.size(); ++i) EXPECT_EQ(all[i].kernel, "c");
}

TEST_F(TunerTest, ThreadsTuneOneAfterTheOther) {
  request_.store = store_.callbacks();
  const std::vector<Candidate> candidates = {Taking("a", 20), Taking("b", 10)};
  std::atomic<size_t> timed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::vector<CandidateResult> results;
      const auto fastest = tuner_.Tune(candidates, request_, results);
      EXPECT_TRUE(fastest.ok() && *fastest == 1) << fastest.status().message();
      for (const CandidateResult& result : results) timed += result.is_stored ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(timed, 2u) << "the first has timed for all";
}

TEST_F(TunerTest, ATuningOnAnotherDeviceIsNotWaitedFor) {
  const Candidate here = Taking("here", 1);
  void* own = fake_->Current();
  fake_->MakeContext(1);
  const Candidate there = Taking("there", 1);
  std::promise<void> begun;
  std::promise<void> ended;
  struct Pause {
    std::promise<void>& begun;
    std::future<void> others;
    bool has_come = false;
  } pause{begun, ended.get_future()};
  std::thread thread([&] {
    fake_->SetCurrent(own);
    TuningRequest request = request_;
    request.cancel_user = &pause;
    request.is_cancelled = [](void* user) -> int32_t {
      auto& self = *static_cast<Pause*>(user);
      if (!std::exchange(self.has_come, true)) {
        self.begun.set_value();
        EXPECT_EQ(self.others.wait_for(std::chrono::seconds(60)), std::future_status::ready);
      }
      return 0;
    };
    std::vector<CandidateResult> results;
    const auto fastest = tuner_.Tune({here}, request, results);
    EXPECT_TRUE(fastest.ok()) << fastest.status().message();
    fake_->SetCurrent(nullptr);
  });
  begun.get_future().wait();
  EXPECT_EQ(TuneOk({there}), 0u);
  ended.set_value();
  thread.join();
}

TEST_F(TunerTest, AnotherProblemGridDriverOrDeviceIsAnotherTime) {
  request_.store = store_.callbacks();
  Candidate candidate = Taking("k", 5);
  TuneOk({candidate});
  request_.problem = "n=8";
  TuneOk({candidate});
  candidate.call.grid[0] = 2;
  TuneOk({candidate});
  EXPECT_THAT(store_.table, SizeIs(3));
  fake_->driver_version = 13010;
  TuneOk({candidate});
  EXPECT_THAT(store_.table, SizeIs(4));
  DeviceFacts device;
  device.name = "Stand-in GPU";
  device.architecture = "90";
  device.driver_version = 13010;
  const ArtifactId& id = candidate.kernel->artifact().id();
  EXPECT_TRUE(store_.table.contains(TuningKey(id, device, candidate.call, "n=8")));
  device.name = "Another GPU";
  EXPECT_FALSE(store_.table.contains(TuningKey(id, device, candidate.call, "n=8")));
  EXPECT_THAT(TuningKey(id, device, candidate.call, "n=8"), SizeIs(testing::Le(128u)));
}

TEST_F(TunerTest, CandidateWithAnInvalidRecordIsTimedAgain) {
  request_.store = store_.callbacks();
  const Candidate candidate = Taking("k", 5);
  TuneOk({candidate});
  const std::string good = store_.table.begin()->second;
  for (const std::string bad :
       {"", "x", "[]", "{}", R"({"format":3,"median_ms":1,"low_ms":1,"high_ms":1,"runs":1})",
        R"({"format":2,"median_ms":"1","low_ms":1,"high_ms":1,"runs":1})",
        R"({"format":2,"median_ms":1,"low_ms":1,"high_ms":1})"}) {
    store_.table.begin()->second = bad;
    TuneOk({candidate});
    EXPECT_FALSE(results_[0].is_stored) << bad;
    EXPECT_EQ(store_.table.begin()->second, good);
  }
}

TEST_F(TunerTest, AStoreNeedsTheProblem) {
  request_.store = store_.callbacks();
  request_.problem.clear();
  ExpectRefused({Taking("k", 1)}, Code::kInvalidArgument, "needs the problem's words");
}

// --- Memory ---

TEST_F(TunerTest, RestoresInputsBeforeEachRunAndAtTheEnd) {
  ReadAndWrite("A234");
  std::vector<char> seen;
  TuneOk({Make("k", Adding(seen)), Make("l", Adding(seen))});
  // Runs of each: the first, five of the estimate, two of the warm-up, ten that count.
  ASSERT_THAT(seen, SizeIs(36));
  EXPECT_EQ(std::string(seen.begin(), seen.end()), std::string(36, 'A'));
  EXPECT_EQ(fake_->Read(x_, 4), "A234");
}

TEST_F(TunerTest, CopiesOnlyMemoryThatIsReadAndWritten) {
  x_ = fake_->MakeBuffer("AbcdEfgh");
  const uint64_t other = fake_->MakeBuffer("out");
  request_.reads = {{x_, 6}};
  request_.writes = {{x_ + 4, 4}, {other, 3}};
  FakeKernel kernel{.milliseconds = 50};
  kernel.body = [&](const std::vector<std::string>&) {
    fake_->Write(x_ + 4, "0000");
    fake_->Write(other, "000");
  };
  TuneOk({Make("k", kernel)});
  EXPECT_EQ(fake_->Read(x_, 8), "AbcdEf00") << "the last two are written alone";
  EXPECT_EQ(fake_->Read(other, 3), "000");
}

TEST_F(TunerTest, CopiesNothingWhereNoBuffersOverlap) {
  x_ = fake_->MakeBuffer("in");
  request_.reads = {{x_, 2}};
  request_.writes = {{fake_->MakeBuffer("out"), 3}};
  TuneOk({Taking("k", 50)});
  EXPECT_EQ(fake_->calls("cuMemcpyDtoDAsync"), 0);
}

TEST_F(TunerTest, OverlapsAreJoined) {
  using Ranges = std::vector<MemoryRange>;
  EXPECT_EQ(Overlaps({{100, 10}, {105, 10}, {300, 1}}, {{0, 200}}), (Ranges{{100, 15}}));
  EXPECT_EQ(Overlaps({{100, 10}}, {{95, 6}, {108, 9}, {120, 1}}), (Ranges{{100, 1}, {108, 2}}));
  EXPECT_EQ(Overlaps({{100, 10}, {110, 5}}, {{0, 200}}), (Ranges{{100, 10}, {110, 5}}));
  EXPECT_EQ(Overlaps({{100, 10}}, {{110, 10}}), Ranges());
  EXPECT_EQ(Overlaps({{100, 0}}, {{90, 20}}), Ranges());
}

TEST_F(TunerTest, BuffersThatLieSideBySideAreCopiedEachByItself) {
  x_ = fake_->MakeNeighbours({"A234", "B234"});
  request_.reads = request_.writes = {{x_, 4}, {x_ + 4, 4}};
  FakeKernel kernel{.milliseconds = 50};
  kernel.body = [&](const std::vector<std::string>&) { fake_->Write(x_, "00000000"); };
  TuneOk({Make("k", kernel)});
  EXPECT_EQ(fake_->Read(x_, 8), "A234B234");
}

TEST_F(TunerTest, RangesMustLieWithinTheirAllocation) {
  x_ = fake_->MakeBuffer("1234");
  request_.writes = {{x_ + 1, 4}};
  ExpectRefused({Taking("k", 1)}, Code::kInvalidArgument, "its allocation ends after 3");
  request_.writes = {{x_ + 1, ~uint64_t{0}}};
  ExpectRefused({Taking("k", 1)}, Code::kInvalidArgument, "its allocation ends after 3");
  request_.writes = {};
  request_.reads = {{0x40, 4}};
  ExpectRefused({Taking("k", 1)}, Code::kInvalidArgument, "0x40 is not device memory");
}

TEST_F(TunerTest, PiecesThatAreMappedOneBehindTheOtherAreOneBuffer) {
  x_ = fake_->MakeMapping({16, 16, 8});
  fake_->Write(x_, std::string(40, 'A'));
  request_.reads = request_.writes = {{x_ + 4, 36}};
  FakeKernel kernel{.milliseconds = 50};
  kernel.body = [&](const std::vector<std::string>&) { fake_->Write(x_, std::string(40, '0')); };
  TuneOk({Make("k", kernel)});
  EXPECT_EQ(fake_->Read(x_, 40), "0000" + std::string(36, 'A'));
  EXPECT_EQ(fake_->calls("cuMemRetainAllocationHandle"), fake_->calls("cuMemRelease"));
  const size_t launches = fake_->launches().size();
  request_.reads = {{x_ + 4, 37}};
  EXPECT_EQ(Tune({Make("k", kernel)}).status().code(), Code::kInvalidArgument);
  EXPECT_THAT(fake_->launches(), SizeIs(launches));
}

TEST_F(TunerTest, FailedCopyAllocationRunsNoCandidate) {
  ReadAndWrite("A234");
  const Candidate candidate = Taking("k", 1);
  fake_->Fail("cuMemAllocAsync", kNoMemory);
  ExpectRefused({candidate}, Code::kResourceExhausted, "4096 bytes of scratch");
}

TEST_F(TunerTest, FailureInMidRunRestoresInputs) {
  ReadAndWrite("A234");
  std::vector<char> seen;
  FakeKernel kernel = Adding(seen);
  kernel.body = [&, add = kernel.body](const std::vector<std::string>& arguments) {
    add(arguments);
    if (seen.size() == 8) fake_->Fail("cuLaunchKernelEx", kLaunchFailed);
  };
  EXPECT_EQ(TuneOk({Make("bad", kernel), Taking("good", 50)}), 1u);
  EXPECT_EQ(results_[0].status.driver_result(), kLaunchFailed);
  EXPECT_EQ(fake_->Read(x_, 4), "A234");
}

TEST_F(TunerTest, ABrokenContextEndsTheTuning) {
  const Candidate bad = Taking("bad", 1), good = Taking("good", 2);
  FakeKernel kernel{.parameter_bytes = {8, 4, 8, 8}};
  kernel.body = [&](const std::vector<std::string>&) {
    fake_->Fail("cuStreamSynchronize", kIllegalAddress, 1000);
  };
  fake_->Define("bad", kernel);
  const auto fastest = Tune({bad, good});
  EXPECT_EQ(fastest.status().code(), Code::kInternal);
  EXPECT_THAT(std::string(fastest.status().message()), HasSubstr("candidate 0 broke the context"));
  EXPECT_FALSE(results_[1].status.ok());
  EXPECT_THAT(fake_->launches(), SizeIs(1));
}

TEST_F(TunerTest, FailureBeforeTheFirstRunIsEachCandidatesStatus) {
  const auto candidates = std::vector{Taking("a", 1), Taking("b", 2)};
  fake_->Fail("cuDeviceGetAttribute", kLaunchFailed);
  EXPECT_FALSE(Tune(candidates).ok());
  for (const CandidateResult& result : results_) EXPECT_EQ(result.status.code(), Code::kInternal);
  fake_->SetCurrent(nullptr);
  fake_->Fail("cuCtxPushCurrent", kLaunchFailed);
  EXPECT_FALSE(Tune(candidates).ok());
  for (const CandidateResult& result : results_) EXPECT_EQ(result.status.code(), Code::kInternal);
  EXPECT_THAT(fake_->launches(), SizeIs(0));
}

TEST_F(TunerTest, CancellingKeepsTimesAndRestoresInputs) {
  ReadAndWrite("A234");
  request_.store = store_.callbacks();
  std::vector<char> seen;
  request_.cancel_user = &seen;
  request_.is_cancelled = [](void* user) -> int32_t {
    return static_cast<std::vector<char>*>(user)->empty() ? 0 : 1;
  };
  const auto fastest = Tune({Make("k", Adding(seen)), Make("l", Adding(seen))});
  EXPECT_EQ(fastest.status().code(), Code::kCancelled);
  EXPECT_TRUE(results_[0].status.ok());
  EXPECT_EQ(results_[1].status.code(), Code::kCancelled);
  EXPECT_THAT(store_.table, SizeIs(1));
  EXPECT_EQ(fake_->Read(x_, 4), "A234");
}

// --- Beside the job ---

TEST_F(TunerTest, CaptureRefusesTheTuning) {
  const Candidate candidate = Taking("k", 1);
  for (const uintptr_t capturing : {0x5000, 0x6000}) {
    const auto stream = reinterpret_cast<Stream>(capturing);
    fake_->BeginCapture(stream);
    ExpectRefused({candidate}, Code::kFailedPrecondition, "");
    void* graph = fake_->EndCapture(stream);
    ASSERT_NE(graph, nullptr) << "it ended the capture";
    fake_->DestroyGraph(graph);
  }
}

TEST_F(TunerTest, StoredTimesAreReadUnderCapture) {
  request_.store = store_.callbacks();
  const Candidate candidate = Taking("k", 5);
  TuneOk({candidate});
  fake_->BeginCapture(kStream);
  EXPECT_EQ(TuneOk({candidate}), 0u);
  void* graph = fake_->EndCapture(kStream);
  ASSERT_NE(graph, nullptr);
  fake_->DestroyGraph(graph);
}

TEST_F(TunerTest, HooksTimesAndStrictnessAreTheJobsAlone) {
  int calls = 0;
  kiln_launch_settings settings{};
  settings.strict = 1;
  settings.times_launches = 1;
  settings.hook_user = &calls;
  settings.enter_hook = [](void* user, const kiln_launch_event*) { ++*static_cast<int*>(user); };
  launcher_.Configure(settings);
  const Candidate candidate = Taking("k", 5);
  TuneOk({candidate});
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(launcher_.TimesOf(*candidate.kernel)->launches, 0u);
  EXPECT_EQ(launcher_.Stats().loads_at_launch, 0u);
}

TEST_F(TunerTest, FlushAndCopiesComeFromTheScratchAllocator) {
  ReadAndWrite("A234");
  std::vector<uint64_t> taken;
  kiln_launch_settings settings{};
  settings.scratch_user = &taken;
  settings.scratch_allocate = [](void* user, uint64_t bytes, uint64_t, Stream) -> Address {
    static_cast<std::vector<uint64_t>*>(user)->push_back(bytes);
    return 0;
  };
  launcher_.Configure(settings);
  ExpectRefused({Taking("k", 1)}, Code::kResourceExhausted, "caller's allocator");
  EXPECT_THAT(taken, testing::ElementsAre(4096));
}

}  // namespace
}  // namespace kiln::launch
