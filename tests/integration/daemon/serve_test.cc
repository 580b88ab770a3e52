// A real daemon's edge: who may ask what, in which form, and until when.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "client/rpc/metric_value.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "storage/base/digest.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "tests/integration/daemon/raw_call.h"
#include "tests/testing/pause.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

// Not 65534: in a user namespace that may be several users.
constexpr uid_t kNobody = 65533;
// HealthCheckResponse{status: SERVING}.
const std::string kServing("\x08\x01");

class ServeTest : public ::testing::Test {
 protected:
  ServeTest() { daemon_.Start(); }

  std::unique_ptr<v1::KernelService::Stub> Kernels() {
    return v1::KernelService::NewStub(ConnectTo(daemon_.socket()));
  }
  admin::v1::GetStatsResponse Stats() {
    grpc::ClientContext context;
    admin::v1::GetStatsResponse stats;
    const auto stub = admin::v1::AdminService::NewStub(ConnectTo(daemon_.admin_socket()));
    EXPECT_TRUE(stub->GetStats(&context, {}, &stats).ok());
    return stats;
  }
  // Null where the socket does not let that user in. REQUIRES: this is root.
  std::shared_ptr<grpc::Channel> ConnectAsNobody() {
    const std::filesystem::path root(daemon_.root());
    for (const auto& path : {root, root.parent_path()}) EXPECT_EQ(::chmod(path.c_str(), 0711), 0);
    return ConnectAs(kNobody, daemon_.socket());
  }
  void AwaitRequests(uint64_t count) {
    while (MetricValue(Stats(), "requests") < count) Pause();
  }

  TemporaryDaemon daemon_{std::vector<std::string>{"--set", "sockets.mode=0666"}};
};

TEST_F(ServeTest, HealthOnBothSocketsAndReflectionForOperators) {
  for (const std::string& socket : {daemon_.socket(), daemon_.admin_socket()}) {
    const auto channel = ConnectTo(socket);
    EXPECT_EQ(CallRaw(channel, "/grpc.health.v1.Health/Check", "").message, kServing);
    EXPECT_EQ(
        CallRaw(channel, "/grpc.health.v1.Health/Check", "\x0a\x15kiln.v1.KernelService").message,
        kServing);
    // ServerReflectionRequest{list_services: ""}
    const RawAnswer services =
        CallRaw(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                std::string("\x3a\x00", 2));
    if (socket == daemon_.socket()) {
      EXPECT_EQ(services.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    } else {
      EXPECT_THAT(services.message, HasSubstr("kiln.v1.KernelService"));
      EXPECT_THAT(services.message, HasSubstr("kiln.admin.v1.AdminService"));
    }
  }
}

v1::OwnEntry OwnEntryOf(const std::string& key, const std::string& content) {
  v1::OwnEntry entry;
  entry.set_key(key);
  v1::OwnFile& file = *entry.add_files();
  file.set_name("file");
  file.set_content(content);
  return entry;
}

TEST_F(ServeTest, OwnEntriesSurviveAKilledDaemonAndAreNobodyElses) {
  const auto mine = daemon_.Connect();
  ASSERT_TRUE(mine->PutOwn({OwnEntryOf("key", "mine")}).ok());
  if (geteuid() == 0) {
    const auto channel = ConnectAsNobody();
    ASSERT_NE(channel, nullptr);
    const auto nobody = v1::KernelService::NewStub(channel);
    v1::GetOwnRequest get;
    get.add_keys("key");
    v1::GetOwnResponse got;
    grpc::ClientContext get_context;
    ASSERT_TRUE(nobody->GetOwn(&get_context, get, &got).ok());
    EXPECT_EQ(got.entries_size(), 0);
    v1::PutOwnRequest put;
    *put.add_entries() = OwnEntryOf("key", "nobody's");
    v1::PutOwnResponse none;
    grpc::ClientContext put_context;
    EXPECT_TRUE(nobody->PutOwn(&put_context, put, &none).ok());
  }
  const uint64_t users = geteuid() == 0 ? 2 : 1;
  EXPECT_EQ(MetricValue(Stats(), "own_users"), users);
  EXPECT_EQ(MetricValue(Stats(), "artifacts"), 0u);

  daemon_.Kill();
  daemon_.Start();
  const auto after = daemon_.Connect()->GetOwn({"other", "key"});
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_EQ(after->size(), 1u);
  EXPECT_EQ(after->front().files(0).content(), "mine");
  // Counted in the background.
  while (MetricValue(Stats(), "own_entries") < users) Pause();
  EXPECT_EQ(MetricValue(Stats(), "own_users"), users);
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(daemon_.root() + "/run/hot")) {
    if (!file.is_regular_file() || file.path().filename() == "toolchains") continue;
    EXPECT_EQ(file.status().permissions() & std::filesystem::perms::others_all,
              std::filesystem::perms::none)
        << file.path();
  }
}

TEST_F(ServeTest, ToolchainsArePublishedAsTheyAreListed) {
  const auto client = daemon_.Connect();
  const auto published = [&] {
    return OsFilesystem().Read(client->hot_directory() + "/toolchains", limits::kMiB).value();
  };
  const auto listed = client->ListToolchains();
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(published(), listed->SerializeAsString());
}

TEST_F(ServeTest, AdministrationIsRefusedOnTheClientsSocket) {
  const auto stub = admin::v1::AdminService::NewStub(ConnectTo(daemon_.socket()));
  grpc::ClientContext context;
  admin::v1::GetStatsResponse stats;
  const grpc::Status status = stub->GetStats(&context, {}, &stats);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("admin.sock"));
  grpc::ClientContext stream_context;
  const auto stream = stub->Verify(&stream_context, {});
  admin::v1::VerifyReport report;
  EXPECT_FALSE(stream->Read(&report));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServeTest, AdministrationSocketServesCompilesToo) {
  const auto stub = v1::KernelService::NewStub(ConnectTo(daemon_.admin_socket()));
  grpc::ClientContext context;
  v1::ListToolchainsResponse toolchains;
  EXPECT_TRUE(stub->ListToolchains(&context, {}, &toolchains).ok());
}

TEST_F(ServeTest, UnknownFieldsOfANewerClientAreIgnored) {
  // CompileRequest has no field 999 (a varint of 1).
  std::string message;
  ASSERT_TRUE(SimpleKernel(1).SerializeToString(&message));
  message += std::string("\xb8\x3e\x01", 3);
  const RawAnswer answer =
      CallRaw(ConnectTo(daemon_.socket()), "/kiln.v1.KernelService/Compile", message);
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

TEST_F(ServeTest, ConnectionsAreCountedAndForgotten) {
  {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (int i = 0; i < 20; ++i) channels.push_back(ConnectTo(daemon_.socket()));
    while (MetricValue(Stats(), "connections") < 21) Pause();
  }
  while (MetricValue(Stats(), "connections") > 1) Pause();
}

// Needs root, as which CI runs, to connect as somebody else; otherwise the only user is oneself.
TEST_F(ServeTest, IdentifiesAUserByItsUid) {
  const bool is_root = ::getuid() == 0;
  const uid_t other = is_root ? kNobody : ::getuid();
  const auto channel = is_root ? ConnectAsNobody() : ConnectTo(daemon_.socket());
  ASSERT_NE(channel, nullptr);
  v1::CompileResponse response;
  grpc::ClientContext context;
  const grpc::Status status =
      v1::KernelService::NewStub(channel)->Compile(&context, SimpleKernel(1), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(daemon_.Log(), HasSubstr("uid=" + std::to_string(other) + " admin=false"));
  if (is_root) {
    EXPECT_EQ(ConnectAs(other, daemon_.admin_socket()), nullptr);
  }
}

TEST_F(ServeTest, DrainFinishesWhatIsUnderWay) {
  v1::CompileResponse response;
  grpc::Status status;
  const auto stub = Kernels();
  // The daemon has just begun to warm its compiler up, so this takes a while.
  std::thread caller([&] {
    grpc::ClientContext context;
    status = stub->Compile(&context, SimpleKernel(1), &response);
  });
  AwaitRequests(1);
  EXPECT_EQ(daemon_.Stop(), 0) << daemon_.Log();
  caller.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ServeTest, DrainByAnOperatorEndsTheDaemon) {
  grpc::ClientContext context;
  admin::v1::DrainResponse response;
  const auto stub = admin::v1::AdminService::NewStub(ConnectTo(daemon_.admin_socket()));
  EXPECT_TRUE(stub->Drain(&context, {}, &response).ok());
  EXPECT_EQ(daemon_.Wait(), 0) << daemon_.Log();
}

TEST_F(ServeTest, SecondSignalQuitsAtOnce) {
  const auto stub = Kernels();
  grpc::Status status;
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::CompileResponse response;
    status = stub->Compile(&context, SimpleKernel(1), &response);
  });
  AwaitRequests(1);
  daemon_.Signal(SIGTERM);
  while (daemon_.Log().find(" draining ") == std::string::npos) Pause();
  daemon_.Signal(SIGTERM);
  EXPECT_EQ(daemon_.Wait(), -SIGTERM) << daemon_.Log();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServeTest, StreamsThatAreOpenDoNotHoldTheDaemon) {
  grpc::ClientContext context;
  const auto stub = Kernels();
  const auto stream = stub->CompileStream(&context);
  v1::CompileStreamRequest item;
  item.set_id(1);
  *item.mutable_request() = SimpleKernel(1);
  ASSERT_TRUE(stream->Write(item));
  v1::CompileStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(daemon_.Stop(), 0) << daemon_.Log();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(ServeTest, OperatorsListInspectPinVerifyAndEvict) {
  const auto compiled = daemon_.Connect()->Compile(SimpleKernel(7));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto stub = admin::v1::AdminService::NewStub(ConnectTo(daemon_.admin_socket()));
  const std::string key = compiled->key();
  {
    grpc::ClientContext context;
    admin::v1::ListArtifactsResponse list;
    ASSERT_TRUE(stub->ListArtifacts(&context, {}, &list).ok());
    ASSERT_EQ(list.artifacts_size(), 1);
    EXPECT_EQ(list.artifacts(0).key(), key);
    EXPECT_EQ(list.artifacts(0).name(), "simple");
  }
  {
    grpc::ClientContext context;
    admin::v1::InspectArtifactRequest request;
    request.set_key_prefix(Digest::FromBytes(key)->Hex().substr(0, 8));
    admin::v1::InspectArtifactResponse response;
    ASSERT_TRUE(stub->InspectArtifact(&context, request, &response).ok());
    EXPECT_EQ(response.metadata().name(), "simple");
    EXPECT_GE(response.stages_size(), 4);
  }
  {
    grpc::ClientContext context;
    admin::v1::PinRequest request;
    request.set_key(key);
    request.set_pinned(true);
    admin::v1::PinResponse response;
    EXPECT_TRUE(stub->Pin(&context, request, &response).ok());
  }
  {
    grpc::ClientContext context;
    const auto stream = stub->Verify(&context, {});
    admin::v1::VerifyReport report;
    while (stream->Read(&report)) EXPECT_EQ(report.quarantined_keys_size(), 0);
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_TRUE(report.done());
    EXPECT_EQ(report.checked(), 1u);
  }
  admin::v1::EvictRequest evict;
  evict.add_keys(key);
  for (const bool force : {false, true}) {
    grpc::ClientContext context;
    evict.set_force(force);
    admin::v1::EvictResponse response;
    ASSERT_TRUE(stub->Evict(&context, evict, &response).ok());
    EXPECT_EQ(response.evicted(), force ? 1u : 0u);
    EXPECT_EQ(response.kept_pinned_size(), force ? 0 : 1);
  }
  EXPECT_EQ(MetricValue(Stats(), "artifacts"), 0u);
}

}  // namespace
}  // namespace kiln
