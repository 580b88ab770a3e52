// However many ask for one new key at once, it is compiled once.

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

TEST(OneCompile, SixtyFourClientsOneNewKey) {
  constexpr int kClients = 64;
  TemporaryDaemon daemon;
  daemon.Start();

  std::mutex mutex;
  std::condition_variable go;
  int waiting = 0;
  std::map<v1::Outcome, int> outcomes;
  std::map<std::string, int> binaries;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      ConnectOptions options;
      options.connect_budget = std::chrono::seconds(30);
      const auto client = daemon.Connect(options);
      {
        std::unique_lock lock(mutex);
        if (++waiting == kClients) go.notify_all();
        go.wait(lock, [&] { return waiting == kClients; });
      }
      const auto answer = client->Compile(SimpleKernel(0));
      std::lock_guard lock(mutex);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ++outcomes[answer->outcome()];
      ++binaries[answer->stages(0).content()];
    });
  }
  for (std::thread& client : clients) client.join();

  EXPECT_EQ(outcomes[v1::OUTCOME_COMPILED], 1);
  EXPECT_EQ(outcomes[v1::OUTCOME_JOINED] + outcomes[v1::OUTCOME_HIT], kClients - 1);
  EXPECT_EQ(binaries.size(), 1u);
  EXPECT_EQ(daemon.Stop(), 0);
}

}  // namespace
}  // namespace kiln
