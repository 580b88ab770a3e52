// libkiln and a real daemon: hits are read in the hot directory.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "client/rpc/admin_client.h"
#include "client/rpc/client.h"
#include "client/rpc/metric_value.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

class HotHitsTest : public ::testing::Test {
 protected:
  HotHitsTest() { daemon_.Start(); }

  uint64_t Metric(const char* name) {
    const auto stats = Admin()->GetStats({});
    EXPECT_TRUE(stats.ok()) << stats.status();
    return MetricValue(*stats, name);
  }
  std::unique_ptr<AdminClient> Admin() {
    ConnectOptions options;
    options.root = daemon_.root();
    auto admin = AdminClient::Connect(options);
    EXPECT_TRUE(admin.ok()) << admin.status();
    return *std::move(admin);
  }
  // The hits that the eviction weighs.
  uint64_t HitsOf(const std::string& key) {
    const auto listed = Admin()->ListArtifacts({});
    EXPECT_TRUE(listed.ok()) << listed.status();
    for (const auto& artifact : listed->artifacts()) {
      if (artifact.key() == key) return artifact.hits();
    }
    ADD_FAILURE() << "it is not stored";
    return 0;
  }
  static v1::CompileResponse Compile(Client& client, int number = 0) {
    auto answer = client.Compile(SimpleKernel(number));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return *std::move(answer);
  }

  TemporaryDaemon daemon_;
};

TEST_F(HotHitsTest, ASecondCompileMakesNoCallAndGivesTheDaemonsAnswer) {
  const auto client = daemon_.Connect();
  EXPECT_EQ(Compile(*client).outcome(), v1::OUTCOME_COMPILED);
  const uint64_t requests = Metric("requests");
  const v1::CompileResponse hit = Compile(*client);
  const v1::CompileResponse others = Compile(*daemon_.Connect());
  EXPECT_EQ(Metric("requests"), requests);

  ConnectOptions asking;
  asking.reads_hot_directory = false;
  const v1::CompileResponse daemons = Compile(*daemon_.Connect(asking));
  EXPECT_EQ(Metric("requests"), requests + 1);
  EXPECT_EQ(daemons.outcome(), v1::OUTCOME_HIT);
  EXPECT_EQ(hit.DebugString(), daemons.DebugString());
  EXPECT_EQ(others.DebugString(), daemons.DebugString());

  v1::CompileResponse streamed;
  bool is_sent = false;
  const absl::Status status = daemon_.Connect(asking)->CompileMany(
      [&](v1::CompileRequest& next) {
        next = SimpleKernel(0);
        return !std::exchange(is_sent, true);
      },
      [&](uint64_t, absl::StatusOr<v1::CompileResponse> answer) { streamed = *std::move(answer); });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(streamed.DebugString(), daemons.DebugString());
}

TEST_F(HotHitsTest, HitsAreKnownToTheEvictionAndToTheStats) {
  const auto client = daemon_.Connect();
  const std::string used = Compile(*client, 1).key();
  const std::string unused = Compile(*client, 2).key();
  for (int job = 0; job < 3; ++job) Compile(*daemon_.Connect(), 1);
  EXPECT_EQ(Metric("hot_uses"), 3u);
  EXPECT_EQ(HitsOf(used), 3u);
  EXPECT_EQ(HitsOf(unused), 0u);
}

TEST_F(HotHitsTest, AnEvictedArtifactIsCompiledAgain) {
  const auto client = daemon_.Connect();
  const std::string key = Compile(*client).key();
  EXPECT_EQ(Compile(*client).outcome(), v1::OUTCOME_HIT);
  admin::v1::EvictRequest evict;
  evict.add_keys(key);
  ASSERT_TRUE(Admin()->Evict({}, evict).ok());
  EXPECT_EQ(Compile(*client).outcome(), v1::OUTCOME_COMPILED);
}

TEST_F(HotHitsTest, AClientOutlivesItsDaemonWhereItHits) {
  const auto client = daemon_.Connect();
  Compile(*client);
  daemon_.Kill();
  EXPECT_EQ(Compile(*client).outcome(), v1::OUTCOME_HIT);
  daemon_.Start();
  // The new daemon empties the directory and fills it again.
  EXPECT_EQ(Compile(*client).outcome(), v1::OUTCOME_HIT);
}

TEST_F(HotHitsTest, AClientOfNoDaemonHitsAndConnectsOnceThereIsOne) {
  Compile(*daemon_.Connect());
  daemon_.Kill();
  ConnectOptions needing;
  needing.root = daemon_.root();
  needing.needs_daemon = true;
  EXPECT_TRUE(absl::IsUnavailable(Client::Connect(needing).status()));

  const auto client = daemon_.Connect();
  EXPECT_EQ(Compile(*client).outcome(), v1::OUTCOME_HIT);
  EXPECT_TRUE(absl::IsUnavailable(client->Compile(SimpleKernel(1)).status()));
  daemon_.Start();
  EXPECT_EQ(Compile(*client, 1).outcome(), v1::OUTCOME_COMPILED);
}

// What the child says in its exit status.
int InChild(const std::function<bool()>& is_right) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(is_right() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// gRPC would have parent and child take events from one another.
TEST_F(HotHitsTest, AForkedChildUsesItsParentsClientWhileThreadsCallWithIt) {
  ConnectOptions asking;
  asking.reads_hot_directory = false;
  const auto client = daemon_.Connect();
  const auto caller = daemon_.Connect(asking);
  Compile(*client);
  std::atomic<bool> is_over = false;
  std::vector<std::thread> users;
  for (int i = 0; i < 2; ++i) {
    users.emplace_back([&] {
      while (!is_over) Compile(*caller);
    });
  }
  for (int round = 1; round <= 10; ++round) {
    EXPECT_EQ(InChild([&] {
                const auto hit = client->Compile(SimpleKernel(0));
                const auto compiled = client->Compile(SimpleKernel(round));
                const auto anew = daemon_.Connect(asking)->Compile(SimpleKernel(round));
                return hit.ok() && hit->outcome() == v1::OUTCOME_HIT && compiled.ok() &&
                       compiled->outcome() == v1::OUTCOME_COMPILED && anew.ok() &&
                       anew->outcome() == v1::OUTCOME_HIT &&
                       absl::IsFailedPrecondition(client->ListToolchains().status());
              }),
              0)
        << round;
    EXPECT_EQ(Compile(*client, round).outcome(), v1::OUTCOME_HIT);
  }
  is_over = true;
  for (std::thread& user : users) user.join();
}

}  // namespace
}  // namespace kiln
