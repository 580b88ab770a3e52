// An acknowledged artifact survives the death of the daemon at any instruction.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "storage/base/digest.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

// 50 in a long run; fewer where the time is shared with all other tests.
int Rounds() {
  const char* given = std::getenv("KILN_TEST_KILLS");
  return given == nullptr ? 6 : std::atoi(given);
}

// What clients were told: key → digest of the final binary.
class Acknowledged {
 public:
  void Add(const v1::CompileResponse& answer) {
    std::lock_guard lock(mutex_);
    digests_[answer.key()] = answer.stages(0).digest();
  }
  std::map<std::string, std::string> All() const {
    std::lock_guard lock(mutex_);
    return digests_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> digests_;
};

// Asks for new kernels until the daemon is gone.
void AskUntilDead(const TemporaryDaemon& daemon, std::atomic<int>& next, Acknowledged& oracle) {
  ConnectOptions options;
  options.retry.attempts_max = 1;
  const auto client = daemon.Connect(options);
  while (true) {
    const auto answer = client->Compile(SimpleKernel(next++));
    if (!answer.ok()) return;
    oracle.Add(*answer);
  }
}

TEST(DaemonDeath, EveryAcknowledgedArtifactIsThereAndRightAfterwards) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> until_death_ms(50, 1500);

  TemporaryDaemon daemon;
  Acknowledged oracle;
  std::atomic<int> next = 0;
  daemon.Start();
  for (int round = 0; round < Rounds(); ++round) {
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] { AskUntilDead(daemon, next, oracle); });
    }
    // The first kernel of a daemon waits for its workers: death is to come under load, not before
    // it.
    const size_t before = oracle.All().size();
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (oracle.All().size() == before && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GT(oracle.All().size(), before) << "nothing was acknowledged";
    std::this_thread::sleep_for(std::chrono::milliseconds(until_death_ms(random)));
    daemon.Kill();
    for (std::thread& client : clients) client.join();

    daemon.Start();
    const auto client = daemon.Connect();
    const auto acknowledged = oracle.All();
    std::vector<std::string> keys;
    for (const auto& [key, digest] : acknowledged) keys.push_back(key);
    const auto entries = client->Lookup(keys);
    ASSERT_TRUE(entries.ok()) << entries.status();
    for (const auto& entry : *entries) {
      ASSERT_TRUE(entry.found()) << "lost after kill " << round;
      const std::string& digest = acknowledged.at(entry.key());
      ASSERT_EQ(entry.stages(entry.stages_size() - 1).digest(), digest);
      const auto bytes = client->Fetch(digest);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      ASSERT_EQ(Digest::Of(*bytes).Bytes(), digest);
    }
  }
  EXPECT_GT(oracle.All().size(), static_cast<size_t>(Rounds()));
  EXPECT_EQ(daemon.Stop(), 0);
}

}  // namespace
}  // namespace kiln
