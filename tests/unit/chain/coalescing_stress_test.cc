// Many threads, few keys, random cancellations and deadlines: what no single situation shows. Meant
// for the sanitizers too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "daemon/chain/caching_provider.h"
#include "daemon/chain/coalescing_provider.h"
#include "storage/base/thread_timer.h"
#include "storage/memory_store.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

// coalescing(caching(fake)) on the real clock, timer and executor, with threads that finish
// compiles now and then.
class Chain {
 public:
  Chain() {
    for (int i = 0; i < 2; ++i) {
      finishers_.emplace_back([this] {
        while (!is_over_) {
          if (!fake_.FinishOne()) std::this_thread::yield();
        }
      });
    }
  }
  ~Chain() {
    is_over_ = true;
    for (std::thread& finisher : finishers_) finisher.join();
  }

  CoalescingProvider& provider() { return provider_; }
  const FakeProvider& fake() const { return fake_; }

 private:
  MemoryStore store_{uint64_t{1} << 30, SystemClock()};
  ThreadTimer timer_;
  FakeProvider fake_;
  ThreadExecutor executor_{2, 16};
  NegativeCache negatives_{SystemClock(), std::chrono::minutes(10)};
  CoalescingProvider provider_{
      std::make_unique<CachingProvider>(std::make_unique<BorrowedProvider>(fake_), store_.index(),
                                        store_.blobs(), negatives_, SystemClock(), executor_),
      SystemClock(), timer_};
  std::atomic<bool> is_over_ = false;
  std::vector<std::thread> finishers_;
};

struct Tally {
  std::atomic<int> answered = 0;
  std::atomic<int> compiled = 0;
  std::atomic<int> left = 0;
};

void Count(const absl::StatusOr<CompileResult>& result, const CompileJob& job, Tally& tally) {
  if (!result.ok()) {
    EXPECT_TRUE(absl::IsCancelled(result.status()) || absl::IsDeadlineExceeded(result.status()))
        << result.status();
    ++tally.left;
    return;
  }
  ++tally.answered;
  if (result->outcome == Outcome::kCompiled) ++tally.compiled;
  ASSERT_NE(result->artifact(), nullptr);
  EXPECT_EQ(result->artifact()->key, job.key);
  EXPECT_EQ(result->artifact()->stages.back().blob.bytes(), "cubin of " + job.request.source.text);
}

// One caller: asks, and perhaps leaves before the answer.
void AskOnce(CoalescingProvider& provider, const CompileJobPtr& job, std::mt19937_64& random,
             Tally& tally) {
  CallContext context;
  context.priority = static_cast<Priority>(random() % 4);
  if (random() % 4 == 0) {
    context.deadline = SystemClock().Now() + std::chrono::microseconds(random() % 300);
  }
  ResultProbe probe;
  provider.Compile(context, job, probe.Done());
  if (random() % 2 == 0) context.cancellation.Cancel();
  Count(probe.Result(), *job, tally);
}

TEST(CoalescingStress, CompilesEachKeyOnceWhileCallersLeave) {
  const uint64_t seed = std::random_device()();
  std::cerr << "seed: " << seed << "\n";
  constexpr int kThreads = 64;
  constexpr int kKeys = 40;
  constexpr int kRequestsPerKey = 3;
  Chain chain;
  Tally tally;
  std::vector<CompileJobPtr> jobs;
  for (int key = 0; key < kKeys; ++key) jobs.push_back(MakeJob(std::to_string(key)));

  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(seed + thread);
      for (const CompileJobPtr& job : jobs) {
        for (int i = 0; i < kRequestsPerKey; ++i) AskOnce(chain.provider(), job, random, tally);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tally.answered + tally.left, kThreads * kKeys * kRequestsPerKey);

  // Every waiter that stays gets an answer; a compile that all waiters left is repeated here.
  for (const CompileJobPtr& job : jobs) {
    ResultProbe probe;
    chain.provider().Compile(CallContext(), job, probe.Done());
    Count(probe.Result(), *job, tally);
  }
  EXPECT_EQ(chain.fake().completed(), static_cast<size_t>(kKeys));
  EXPECT_LE(tally.compiled, kKeys);
  EXPECT_EQ(chain.fake().held(), 0u);
  EXPECT_EQ(chain.provider().FlightCount(), 0u);
}

// As above, with nobody leaving: then not only what is completed but also what is started is
// exactly one.
TEST(CoalescingStress, StartsEachKeyOnceWhereAllCallersStay) {
  Chain chain;
  std::atomic<int> compiled = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 64; ++thread) {
    threads.emplace_back([&] {
      for (int key = 0; key < 20; ++key) {
        ResultProbe probe;
        chain.provider().Compile(CallContext(), MakeJob(std::to_string(key)), probe.Done());
        if (probe.How() == Outcome::kCompiled) ++compiled;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(chain.fake().started(), 20u);
  EXPECT_EQ(compiled, 20);
}

}  // namespace
}  // namespace kiln
