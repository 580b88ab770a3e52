// However many ask for one new key at once, it is compiled once.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "client/rpc/admin_client.h"
#include "client/rpc/metric_value.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

// What compilers did, whatever the clients were told.
void ExpectOneCompileOf(const TemporaryDaemon& daemon) {
  ConnectOptions options;
  options.root = daemon.root();
  const auto admin = AdminClient::Connect(options);
  ASSERT_TRUE(admin.ok()) << admin.status();
  const auto stats = (*admin)->GetStats({});
  ASSERT_TRUE(stats.ok()) << stats.status();
  ASSERT_EQ(stats->toolchains_size() > 0, true);
  EXPECT_EQ(MetricValue(*stats, "compiles"), 1u);
  EXPECT_EQ(MetricValue(*stats, "running"), 0u);
}

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
  ExpectOneCompileOf(daemon);
  EXPECT_EQ(daemon.Stop(), 0);
}

// 100 in a long run, which makes 10,000 requests; fewer where the time is shared with all other
// tests.
int Processes() {
  const char* given = std::getenv("KILN_TEST_CLIENT_PROCESSES");
  return given == nullptr ? 8 : std::atoi(given);
}

// One that writes to `out`.
pid_t StartClients(const std::string& root, unsigned seed, const std::string& out) {
  const std::string seed_text = std::to_string(seed);
  std::array<const char*, 5> words = {KILN_COMPILE_CLIENTS, root.c_str(), seed_text.c_str(), "100",
                                      nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, words[0], &actions, nullptr,
                                 const_cast<char* const*>(words.data()), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0) << std::strerror(failed);
  return pid;
}

TEST(OneCompile, ManyProcessesOfWhichHalfTheRequestsGiveUp) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  TempDirectory directory;
  TemporaryDaemon daemon;
  daemon.Start();
  std::vector<pid_t> processes;
  const auto out = [&](int i) { return directory.File(std::to_string(i)); };
  for (int i = 0; i < Processes(); ++i) {
    processes.push_back(StartClients(daemon.root(), seed + static_cast<unsigned>(i), out(i)));
  }
  std::map<std::string, int> told;
  for (int i = 0; i < Processes(); ++i) {
    int status = 0;
    ASSERT_EQ(waitpid(processes[static_cast<size_t>(i)], &status, 0),
              processes[static_cast<size_t>(i)]);
    EXPECT_EQ(status, 0);
    std::ifstream file(out(i));
    for (const char* what : {"compiled", "joined", "hit", "left", "other"}) {
      int count = 0;
      file >> count;
      told[what] += count;
      told["all"] += count;
    }
  }
  EXPECT_EQ(told["all"], 100 * Processes());
  EXPECT_EQ(told["other"], 0);
  EXPECT_LE(told["compiled"], 1);  // whoever was to be told may have left
  std::cerr << fmt::format("joined {}, hit {}, left {}\n", told["joined"], told["hit"],
                           told["left"]);

  ExpectOneCompileOf(daemon);
  EXPECT_EQ(daemon.Stop(), 0);
}

}  // namespace
}  // namespace kiln
