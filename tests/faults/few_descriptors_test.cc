// A real daemon that can open nothing any more while it compiles.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "client/rpc/admin_client.h"
#include "client/rpc/metric_value.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_kernel.h"
#include "tests/testing/no_more_descriptors.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

void WaitUntil(const std::function<bool()>& condition) {
  const auto give_up = Steady::now() + std::chrono::minutes(2);
  while (!condition()) {
    ASSERT_LT(Steady::now(), give_up);
    std::this_thread::sleep_for(milliseconds(10));
  }
}

TEST(FewDescriptors, ACompileUnderWayIsNotBlamed) {
  const TempDirectory directory;
  MakeFakeToolchain(directory.File("toolchains/triton-3.6.0"));
  TemporaryDaemon daemon({"--set", "toolchain.directories=" + directory.File("toolchains"), "--set",
                          "workers.slots=2", "--set", "workers.memory_min=0B"});
  daemon.Start();
  const auto client = daemon.Connect();
  ConnectOptions options;
  options.root = daemon.root();
  const auto admin = AdminClient::Connect(options);
  ASSERT_TRUE(admin.ok()) << admin.status();
  ASSERT_TRUE((*admin)->GetStats({}).ok());
  const std::string busy = directory.File("busy");
  WriteFileOrDie(busy, "");
  auto running = std::async(std::launch::async,
                            [&] { return client->Compile(FakeKernel("await " + busy), {}); });
  WaitUntil([&] {
    const auto stats = (*admin)->GetStats({});
    return stats.ok() && MetricValue(*stats, "running") == 1 && MetricValue(*stats, "workers") > 0;
  });
  {
    const NoMoreDescriptors shortage(daemon.pid());
    EXPECT_EQ(running.wait_for(milliseconds(400)), std::future_status::timeout);
  }
  std::filesystem::remove(busy);
  for (const auto& answer : {running.get(), client->Compile(FakeKernel("answer after"), {})}) {
    EXPECT_TRUE(answer.ok()) << answer.status();
  }
  const auto stats = (*admin)->GetStats({});
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(MetricValue(*stats, "workers_crashed"), 0u);
  EXPECT_EQ(MetricValue(*stats, "sources_quarantined"), 0u);
  EXPECT_EQ(daemon.Stop(), 0);
}

}  // namespace
}  // namespace kiln
