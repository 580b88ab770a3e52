// Many threads that queue, leave, run out of time and raise: no call is lost, and never do more run
// than may.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "daemon/chain/admission_provider.h"
#include "storage/base/thread_timer.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

constexpr int kRunningMax = 3;

// Low every now and then.
class UnsteadyMemory final : public MemoryProbe {
 public:
  MemoryState Look() const override { return {calls_++ % 3 == 0 ? 0 : 1000}; }

 private:
  mutable std::atomic<uint64_t> calls_ = 0;
};

CallContext RandomCaller(std::mt19937_64& random) {
  CallContext context;
  context.principal.uid = static_cast<uid_t>(random() % 3);
  context.priority = static_cast<Priority>(random() % 4);
  context.job = std::to_string(random() % 2);
  if (random() % 4 == 0) {
    context.deadline = SystemClock().Now() + std::chrono::microseconds(random() % 500);
  }
  return context;
}

TEST(AdmissionStress, EveryCallEndsAndNeverTooManyRun) {
  const uint64_t seed = std::random_device()();
  std::cerr << "seed: " << seed << "\n";
  ThreadTimer timer;
  UnsteadyMemory memory;
  FakeProvider fake(&timer);
  AdmissionLimits limits;
  limits.running_max = kRunningMax;
  limits.free_memory_bytes_min = 500;
  limits.compile_bytes_default = 10;
  AdmissionProvider provider(std::make_unique<BorrowedProvider>(fake), limits, memory,
                             SystemClock(), timer);
  std::atomic<bool> is_over = false;
  std::vector<std::thread> finishers;
  for (int i = 0; i < 2; ++i) {
    finishers.emplace_back([&] {
      while (!is_over) {
        EXPECT_LE(fake.held(), static_cast<size_t>(kRunningMax));
        if (!fake.FinishOne()) std::this_thread::yield();
      }
    });
  }

  std::vector<std::thread> callers;
  for (int thread = 0; thread < 32; ++thread) {
    callers.emplace_back([&, thread] {
      std::mt19937_64 random(seed + thread);
      for (int i = 0; i < 60; ++i) {
        const CallContext context = RandomCaller(random);
        const CompileJobPtr job = MakeJob(std::to_string(random() % 50));
        ResultProbe probe;
        provider.Compile(context, job, probe.Done());
        if (random() % 2 == 0) provider.Raise(job->key, CallContext());
        if (random() % 3 == 0) CallContext(context).cancellation.Cancel();
        const absl::StatusOr<CompileResult> result = probe.Result();
        EXPECT_TRUE(result.ok() || absl::IsCancelled(result.status()) ||
                    absl::IsDeadlineExceeded(result.status()))
            << result.status();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  is_over = true;
  for (std::thread& finisher : finishers) finisher.join();
  EXPECT_EQ(provider.Stats().running, 0u);
  EXPECT_EQ(provider.Stats().queued, 0u);
  EXPECT_EQ(provider.Stats().queued_bytes, 0u);
}

}  // namespace
}  // namespace kiln
