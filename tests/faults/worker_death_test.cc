// How soon a worker that hangs is killed after its deadline, and another has taken its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>

#include "daemon/pool/worker_pool.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

struct Answered {
  absl::StatusOr<WorkerReply> reply;
  Steady::time_point at;
};

Answered Ask(WorkerPool& pool, const std::string& what,
             std::optional<Steady::time_point> deadline) {
  CallContext context;
  context.deadline = deadline;
  std::promise<Answered> promise;
  pool.Submit(std::move(context), FakeRequest(what), [&](absl::StatusOr<WorkerReply> reply) {
    promise.set_value({std::move(reply), Steady::now()});
  });
  return promise.get_future().get();
}

// Waits for the spare worker, after `ended` others have compiled.
void AwaitReadyWorker(const WorkerPool& pool, uint64_t ended) {
  while (true) {
    if (pool.counters().started.value() == ended + 1 && pool.Stats().workers == 1) return;
    std::this_thread::yield();
  }
}

// "p50 1.2 ms, p99 3.4 ms, longest 5.6 ms"
std::string Summary(std::vector<double>& millis) {
  std::sort(millis.begin(), millis.end());
  return fmt::format("p50 {:.1f} ms, p99 {:.1f} ms, longest {:.1f} ms", millis[millis.size() / 2],
                     millis[millis.size() * 99 / 100], millis.back());
}

TEST(WorkerDeath, HungCompileIsKilledAtItsDeadlineAndItsWorkerReplaced) {
  const char* wanted = std::getenv("KILN_TEST_DEATHS");
  const int rounds = wanted == nullptr ? 12 : std::max(1, std::atoi(wanted) / 10);
  const TempDirectory directory;
  WorkerPoolOptions options;
  options.zygote = FakeZygote();
  options.zygote.jail = std::make_shared<Jail>(Jail::Mode::kOn, JailSupport::OfThisKernel());
  options.work_directory = directory.File("work");
  WorkerPool pool(options);
  std::vector<double> killed;
  std::vector<double> replaced;
  for (int i = 0; i < rounds; ++i) {
    ASSERT_TRUE(Ask(pool, "answer ready", std::nullopt).reply.ok());
    AwaitReadyWorker(pool, /*ended=*/static_cast<uint64_t>(3 * i + 1));
    const char* const hanging[] = {"sleep", "spin", "fork"};
    const auto deadline = Steady::now() + milliseconds(20);
    const Answered hung = Ask(pool, hanging[i % 3], deadline);
    ASSERT_TRUE(absl::IsDeadlineExceeded(hung.reply.status())) << hung.reply.status();
    const Answered next = Ask(pool, "answer next", std::nullopt);
    ASSERT_TRUE(next.reply.ok()) << next.reply.status();
    killed.push_back(std::chrono::duration<double, std::milli>(hung.at - deadline).count());
    replaced.push_back(std::chrono::duration<double, std::milli>(next.at - hung.at).count());
  }
  EXPECT_EQ(pool.counters().killed.value(), static_cast<uint64_t>(rounds));
  pool.Shutdown(Steady::now());
  EXPECT_THAT(LivingDescendants(), testing::IsEmpty());
  std::printf("%d deadlines; killed after: %s; another has compiled after: %s\n", rounds,
              Summary(killed).c_str(), Summary(replaced).c_str());
  constexpr double kKilledWithinMs = 250;
  constexpr double kReplacedWithinMs = 200;
  // A hundred times what it takes, so that a machine with other work holds it, too.
  EXPECT_LE(killed[killed.size() / 2], kKilledWithinMs);
  EXPECT_LE(replaced[replaced.size() / 2], kReplacedWithinMs);
  // The tail belongs to whatever else runs on the machine, but in the long form.
  if (wanted == nullptr) return;
  EXPECT_LE(killed.back(), kKilledWithinMs);
  EXPECT_LE(replaced.back(), kReplacedWithinMs);
}

}  // namespace
}  // namespace kiln
