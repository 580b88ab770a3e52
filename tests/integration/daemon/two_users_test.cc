// Two users of one real daemon, neither of them its own: no worker compiles twice for them.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "client/rpc/metric_value.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "tests/integration/daemon/raw_call.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/fake_kernel.h"
#include "tests/testing/pause.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

class TwoUsersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "it takes root to be two other users";
    const std::filesystem::path root(daemon_.root());
    for (const auto& path : {root, root.parent_path()}) ASSERT_EQ(chmod(path.c_str(), 0711), 0);
    daemon_.Start();
    for (const uid_t uid : {65534, 65533}) {
      const auto channel = ConnectAs(uid, daemon_.socket());
      ASSERT_NE(channel, nullptr);
      users_.push_back(v1::KernelService::NewStub(channel));
    }
  }

  v1::Outcome Compile(int user, int kernel) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    v1::CompileResponse response;
    const grpc::Status status =
        users_[static_cast<size_t>(user)]->Compile(&context, SimpleKernel(kernel), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.outcome();
  }
  admin::v1::GetStatsResponse Stats() {
    grpc::ClientContext context;
    admin::v1::GetStatsResponse stats;
    const auto stub = admin::v1::AdminService::NewStub(ConnectTo(daemon_.admin_socket()));
    EXPECT_TRUE(stub->GetStats(&context, {}, &stats).ok());
    return stats;
  }

  // Triton's workers alone: the first ptxas has one that started ahead.
  uint64_t WorkersStarted() {
    double started = 0;
    const auto stats = Stats();
    for (const admin::v1::Metric& metric : stats.metrics()) {
      if (metric.name() != "workers_started") continue;
      const auto toolchain = metric.labels().find("toolchain");
      if (toolchain != metric.labels().end() && toolchain->second.starts_with("triton=="))
        started += metric.value();
    }
    return static_cast<uint64_t>(started);
  }

  TemporaryDaemon daemon_{
      std::vector<std::string>{"--set", "sockets.mode=0666", "--set", "workers.slots=1"}};
  std::vector<std::unique_ptr<v1::KernelService::Stub>> users_;
};

TEST_F(TwoUsersTest, StartsAFreshWorkerForEachCompile) {
  for (int kernel = 0; kernel < 6; ++kernel) {
    EXPECT_EQ(Compile(kernel / 2 % 2, kernel), v1::OUTCOME_COMPILED);
  }
  // What the other had compiled takes none.
  for (int kernel = 0; kernel < 6; ++kernel) EXPECT_EQ(Compile(1, kernel), v1::OUTCOME_HIT);
  // The last one waits for whoever comes next.
  while (WorkersStarted() < 7) Pause();
  EXPECT_EQ(WorkersStarted(), 7u);
  EXPECT_EQ(MetricValue(Stats(), "workers_crashed"), 0u);
}

// One of them sends a source that takes its worker over, and then a kernel that the other is about
// to ask for.
TEST(TakenOverWorkerTest, CannotPlantABinaryUnderAnotherKey) {
  if (geteuid() != 0) GTEST_SKIP() << "it takes root to be two other users";
  const TempDirectory toolchains;
  MakeFakeToolchain(toolchains.File("triton-3.6.0"));
  TemporaryDaemon daemon({"--set", "toolchain.directories=" + toolchains.path(), "--set",
                          "sockets.mode=0666", "--set", "workers.slots=1"});
  const std::filesystem::path root(daemon.root());
  for (const auto& path : {root, root.parent_path()}) ASSERT_EQ(chmod(path.c_str(), 0711), 0);
  daemon.Start();
  const auto compile = [&](uid_t uid, const std::string& source) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    v1::CompileResponse response;
    const grpc::Status status = v1::KernelService::NewStub(ConnectAs(uid, daemon.socket()))
                                    ->Compile(&context, FakeKernel(source), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  compile(65534, "take-over evil");
  compile(65534, "answer popular");
  const v1::CompileResponse hit = compile(65533, "answer popular");
  EXPECT_EQ(hit.outcome(), v1::OUTCOME_HIT);
  ASSERT_GT(hit.stages_size(), 0);
  EXPECT_EQ(hit.stages().rbegin()->content(), "binary of popular");
}

}  // namespace
}  // namespace kiln
