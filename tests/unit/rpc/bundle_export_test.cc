#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <future>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"
#include "kiln/v1/bundle.pb.h"
#include "storage/bundle/zstd_frame.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/result_probe.h"
#include "tests/unit/rpc/service_fixture.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;

class BundleExportTest : public ServiceTest {
 protected:
  using Request = admin::v1::ExportArtifactsRequest;
  using Response = admin::v1::ExportArtifactsResponse;

  // An artifact with so many bytes, of which the first `noise` do not compress.
  std::string Store(const std::string& source, size_t bytes, size_t noise = 0,
                    const std::string& job = "") {
    const CompileJobPtr compiled = MakeJob(source);
    Artifact artifact = *MakeArtifactOf(*compiled);
    std::string content = Noise(DigestHash()(compiled->key), noise);
    content.resize(bytes, 'x');
    artifact.stages = {{"cubin", Blob::FromBytes(std::move(content))}};
    CallContext context;
    context.job = job;
    const Blob blob = artifact.stages.front().blob;
    EXPECT_TRUE(store_.index().Put(context, MakeRecord(artifact), {&blob, 1}).ok());
    return std::string(compiled->key.Bytes());
  }
  Response Export(const Request& request) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status status = stub_->ExportArtifacts(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  // The keys in the answer's block.
  static std::vector<std::string> KeysIn(const Response& response) {
    v1::BundleBlock block;
    if (!response.frame().empty()) {
      const auto content = DecompressFrame(response.frame(), limits::kBundleBlockBytesMax);
      EXPECT_TRUE(content.ok() && block.ParseFromString(*content));
    }
    EXPECT_EQ(response.artifacts(), static_cast<uint64_t>(block.artifacts_size()));
    std::vector<std::string> keys;
    for (const v1::BundleArtifact& artifact : block.artifacts()) keys.push_back(artifact.key());
    return keys;
  }

  std::unique_ptr<admin::v1::AdminService::Stub> stub_ =
      admin::v1::AdminService::NewStub(Connect({0, true}));
};

TEST_F(BundleExportTest, NamedArtifactsComeInBlocksOfBoundedSize) {
  Request request;
  for (int i = 0; i < 10; ++i) request.add_keys(Store(std::to_string(i), limits::kMiB));
  request.add_keys(Store("large", 20 * limits::kMiB));
  request.add_keys(Store("small", 1));
  const std::vector<std::string> all(request.keys().begin(), request.keys().end());
  std::vector<std::string> got;
  std::vector<size_t> counts;
  while (!request.keys().empty()) {
    const Response response = Export(request);
    const std::vector<std::string> keys = KeysIn(response);
    ASSERT_FALSE(keys.empty());
    got.insert(got.end(), keys.begin(), keys.end());
    counts.push_back(keys.size());
    *request.mutable_keys() = response.unanswered_keys();
  }
  EXPECT_EQ(got, all);
  EXPECT_THAT(counts, ElementsAre(3, 3, 3, 1, 1, 1));
}

TEST_F(BundleExportTest, ATooLargeArtifactIsNamedAndTheOthersCome) {
  Request request;
  request.add_keys(Store("before", 1));
  request.add_keys(Store("large", limits::kBundleBlockBytesMax));
  request.add_keys(Store("after", 1));
  const Response response = Export(request);
  EXPECT_THAT(KeysIn(response), ElementsAre(request.keys(0), request.keys(2)));
  EXPECT_THAT(response.too_large_keys(), ElementsAre(request.keys(1)));

  Request noise;
  noise.add_keys(Store("noise", 17 * limits::kMiB, 17 * limits::kMiB));
  const Response left_out = Export(noise);
  EXPECT_THAT(KeysIn(left_out), ElementsAre());
  EXPECT_THAT(left_out.too_large_keys(), ElementsAre(noise.keys(0)));
}

TEST_F(BundleExportTest, AllArtifactsOfARangeComeOnceAndInOrder) {
  std::set<std::string> all;
  for (int i = 0; i < 20; ++i) all.insert(Store(std::to_string(i), limits::kMiB));
  CallContext alice;
  alice.principal.uid = 1000;
  ASSERT_TRUE(own_.Put(alice, "key", {{"file", "content", std::nullopt, Digest()}}).ok());
  const std::string middle = *std::next(all.begin(), 8);
  std::vector<std::string> got;
  Request ranges[2];
  ranges[0].set_last(middle);
  ranges[1].set_after(middle);
  for (Request& range : ranges) {
    do {
      const Response response = Export(range);
      const std::vector<std::string> keys = KeysIn(response);
      got.insert(got.end(), keys.begin(), keys.end());
      range.set_after(response.next());
    } while (!range.after().empty());
  }
  EXPECT_EQ(got, std::vector<std::string>(all.begin(), all.end()));
}

TEST_F(BundleExportTest, JobAndTargetChoose) {
  const std::string mine = Store("a", 1, 0, "mine");
  const std::string other = Store("b", 1, 0, "other");
  Request request;
  request.set_job("mine");
  EXPECT_THAT(KeysIn(Export(request)), ElementsAre(mine));
  request.add_targets("cuda:none");
  EXPECT_THAT(KeysIn(Export(request)), ElementsAre());
  request.add_targets(MakeJob("a")->request.target.ToString());
  EXPECT_THAT(KeysIn(Export(request)), ElementsAre(mine));
  request.set_job("");
  EXPECT_EQ(KeysIn(Export(request)).size(), 2u);
}

TEST_F(BundleExportTest, WhatIsNotStoredIsNamed) {
  Request request;
  request.add_keys(std::string(MadeKey("none").Bytes()));
  const Response response = Export(request);
  EXPECT_THAT(KeysIn(response), ElementsAre());
  EXPECT_THAT(response.missing_keys(), ElementsAre(request.keys(0)));
  request.add_keys("short");
  grpc::ClientContext context;
  Response refused;
  EXPECT_EQ(stub_->ExportArtifacts(&context, request, &refused).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(BundleExportTest, ABlockDoesNotWaitForReads) {
  Request request;
  request.add_keys(Store("a", 1));
  std::promise<void> released;
  executor_.Run([held = released.get_future().share()] { held.wait(); });
  EXPECT_EQ(Export(request).artifacts(), 1u);
  released.set_value();
}

}  // namespace
}  // namespace kiln
