// Two users of one real daemon: each is served, and no worker serves both.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "tests/integration/daemon/raw_call.h"
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

  TemporaryDaemon daemon_{
      std::vector<std::string>{"--set", "sockets.mode=0666", "--set", "workers.slots=1"}};
  std::vector<std::unique_ptr<v1::KernelService::Stub>> users_;
};

TEST_F(TwoUsersTest, InTurnsEachGetsAFreshWorker) {
  EXPECT_EQ(Compile(0, 0), v1::OUTCOME_COMPILED);
  const uint64_t started = Stats().workers_started();
  for (int kernel = 1; kernel <= 4; ++kernel) {
    EXPECT_EQ(Compile(kernel % 2, kernel), v1::OUTCOME_COMPILED);
    EXPECT_EQ(Stats().workers_gave_way(), static_cast<uint64_t>(kernel));
  }
  // Who comes again finds the worker that they had, …
  EXPECT_EQ(Compile(0, 5), v1::OUTCOME_COMPILED);
  // … and what the other had compiled takes none.
  for (int kernel = 0; kernel <= 5; ++kernel) EXPECT_EQ(Compile(1, kernel), v1::OUTCOME_HIT);
  EXPECT_EQ(Stats().workers_started(), started + 4);
  EXPECT_EQ(Stats().workers_gave_way(), 4u);
}

}  // namespace
}  // namespace kiln
