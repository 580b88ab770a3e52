#include "client/rpc/admin_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "storage/base/status.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A daemon whose administration can be made to hang.
class AdminClientTest : public ::testing::Test {
 protected:
  ~AdminClientTest() override { gate_->Open(); }

  std::unique_ptr<AdminClient> Connect(milliseconds answer_budget = milliseconds(50)) {
    ConnectOptions options = daemon_.Options();
    options.answer_budget = answer_budget;
    auto client = AdminClient::Connect(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  void HangSignsOfLife() {
    daemon_.kernels().on_lookup = [gate = gate_](const auto&, auto*) {
      gate->Await();
      return grpc::Status::OK;
    };
  }

  FakeDaemon daemon_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

TEST_F(AdminClientTest, ADaemonThatFallsSilentIsGivenUp) {
  const auto client = Connect();
  daemon_.admin().gate = gate_;
  HangSignsOfLife();
  const auto stats = client->GetStats({});
  EXPECT_EQ(stats.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(stats.status())), HasSubstr("does not answer"));
  const absl::Status verified = client->Verify([](const auto&) {}, {});
  EXPECT_EQ(verified.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(verified)), HasSubstr("does not answer"));
}

TEST_F(AdminClientTest, ConnectGivesUpASilentDaemon) {
  HangSignsOfLife();
  ConnectOptions options = daemon_.Options();
  options.answer_budget = milliseconds(50);
  EXPECT_EQ(AdminClient::Connect(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AdminClientTest, LongWorkIsNotTakenForSilence) {
  // On a busy machine a sign of life may take longer than the others' 50 ms.
  const auto client = Connect(milliseconds(900));
  std::atomic<int> signs = 0;
  daemon_.kernels().on_lookup = [&](const auto&, auto*) {
    if (++signs == 3) gate_->Open();
    return grpc::Status::OK;
  };
  daemon_.admin().gate = gate_;
  daemon_.admin().reports.resize(2);
  int reports = 0;
  EXPECT_TRUE(client->Verify([&](const auto&) { ++reports; }, {}).ok());
  EXPECT_EQ(reports, 2);
  EXPECT_GE(signs, 3);
}

}  // namespace
}  // namespace kiln
