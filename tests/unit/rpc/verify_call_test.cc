#include "daemon/rpc/verify_call.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <map>
#include <thread>

#include "storage/forwarding_store.h"
#include "tests/testing/artifacts.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Blobs that do what a test wants before some of them are read.
class WatchedBlobs final : public BlobStore {
 public:
  using Action = std::function<absl::Status(const CallContext&)>;
  explicit WatchedBlobs(BlobStore& blobs) : blobs_(blobs) {}

  void BeforeGet(const Blob& blob, Action action) { actions_[blob.digest()] = std::move(action); }

  absl::StatusOr<FoundBlob> GetBlob(const CallContext& context, const Digest& digest) override {
    const auto found = actions_.find(digest);
    if (found != actions_.end()) KILN_RETURN_IF_ERROR(found->second(context));
    return blobs_.GetBlob(context, digest);
  }
  absl::StatusOr<std::vector<Digest>> FindMissing(const CallContext& context,
                                                  std::span<const Digest> digests) override {
    return blobs_.FindMissing(context, digests);
  }

 private:
  BlobStore& blobs_;
  std::map<Digest, Action> actions_;
};

class VerifyCallTest : public ServiceTest {
 protected:
  VerifyCallTest() {
    for (const char* name : {"a", "b", "c"}) artifacts_.push_back(MakeArtifact(name));
    std::sort(artifacts_.begin(), artifacts_.end(),
              [](const auto& a, const auto& b) { return a.record.key < b.record.key; });
    actions_.verify = [this](const CallContext& context, const VerificationCallback& report) {
      absl::Status status =
          VerifyArtifacts(context, store_.index(), blobs_, store_.index(), report).status();
      ended_.set_value(status);
      return status;
    };
  }

  void StoreAll() {
    for (const MadeArtifact& made : artifacts_) {
      ASSERT_TRUE(store_.index().Put({}, made.record, made.blobs).ok());
    }
  }
  // All reports, and how the call ended.
  std::vector<admin::v1::VerifyReport> ReadAll(grpc::Status& end) {
    grpc::ClientContext context;
    const auto stream = stub_->Verify(&context, {});
    std::vector<admin::v1::VerifyReport> reports;
    admin::v1::VerifyReport report;
    while (stream->Read(&report)) reports.push_back(report);
    end = stream->Finish();
    return reports;
  }
  // The second artifact is read once the daemon knows that nobody waits any more.
  void HoldUntilCancelled() {
    blobs_.BeforeGet(artifacts_[1].blobs[0], [](const CallContext& context) {
      while (!context.cancellation.IsCancelled()) std::this_thread::yield();
      return absl::OkStatus();
    });
    blobs_.BeforeGet(artifacts_[2].blobs[0], [](const CallContext&) {
      ADD_FAILURE() << "goes on without a client";
      return absl::OkStatus();
    });
  }

  std::vector<MadeArtifact> artifacts_;  // in the order in which they are verified
  WatchedBlobs blobs_{store_.blobs()};
  std::promise<absl::Status> ended_;
  std::unique_ptr<admin::v1::AdminService::Stub> stub_ =
      admin::v1::AdminService::NewStub(Connect({0, true}));
};

TEST_F(VerifyCallTest, ReportsAsItGoesAndEachDamagedKeyOnce) {
  artifacts_[0].record.stages[1].size_bytes += 1;
  StoreAll();
  grpc::Status end;
  const auto reports = ReadAll(end);
  EXPECT_TRUE(end.ok()) << end.error_message();
  std::vector<uint64_t> checked;
  std::vector<bool> done;
  std::vector<std::string> quarantined;
  for (const auto& report : reports) {
    checked.push_back(report.checked());
    done.push_back(report.done());
    for (const std::string& key : report.quarantined_keys()) quarantined.push_back(key);
  }
  EXPECT_THAT(checked, ElementsAre(1u, 2u, 3u, 3u));
  EXPECT_THAT(done, ElementsAre(false, false, false, true));
  EXPECT_THAT(quarantined, ElementsAre(std::string(artifacts_[0].record.key.Bytes())));
  EXPECT_GT(reports.front().checked_bytes(), 0u);
  EXPECT_GT(reports.back().checked_bytes(), reports.front().checked_bytes());
}

TEST_F(VerifyCallTest, StoreThatFailsMidwayEndsTheCallWithItsWords) {
  StoreAll();
  blobs_.BeforeGet(artifacts_[1].blobs[0],
                   [](const CallContext&) { return Unavailable("the disk does not answer"); });
  grpc::Status end;
  const auto reports = ReadAll(end);
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(end.error_message(), HasSubstr("the disk does not answer"));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].checked(), 1u);
  EXPECT_FALSE(reports[0].done());
}

TEST_F(VerifyCallTest, ClientThatCancelsEndsIt) {
  StoreAll();
  HoldUntilCancelled();
  grpc::ClientContext context;
  const auto stream = stub_->Verify(&context, {});
  admin::v1::VerifyReport report;
  ASSERT_TRUE(stream->Read(&report));
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(absl::IsCancelled(ended_.get_future().get()));
}

TEST_F(VerifyCallTest, ConnectionThatBreaksEndsIt) {
  StoreAll();
  HoldUntilCancelled();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd connection(::dup(ends[1]));
  ASSERT_TRUE(servers_.Serve(UniqueFd(ends[0]), {0, true}).ok());
  const auto stub =
      admin::v1::AdminService::NewStub(grpc::CreateInsecureChannelFromFd("kilnd", ends[1]));
  grpc::ClientContext context;
  const auto stream = stub->Verify(&context, {});
  admin::v1::VerifyReport report;
  ASSERT_TRUE(stream->Read(&report));
  ASSERT_EQ(::shutdown(connection.get(), SHUT_RDWR), 0);
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_TRUE(absl::IsCancelled(ended_.get_future().get()));
}

}  // namespace
}  // namespace kiln
