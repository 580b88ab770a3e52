// A daemon for client tests: real gRPC on a real socket, answers as the test says.
#pragma once

#include <grpcpp/server.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "client/rpc/client.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "tests/testing/temp_directory.h"

namespace kiln {

// Something that a call waits for until the test lets it go on. Shared, since the call may end
// after the test.
class Gate {
 public:
  void Open();
  void Await();

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

// An answer with a key and one stage, both made of the request's source: "cubin" with the content
// "cubin of <source>".
v1::CompileResponse AnswerTo(const v1::CompileRequest& request);
// A stage whose content travels along.
v1::StageBlob InlineStage(const std::string& name, const std::string& content);
// One whose content must be fetched.
v1::StageBlob DistantStage(const std::string& name, const std::string& content);
// A status that carries a message of kiln.v1 in its details.
grpc::Status StatusWithDetail(grpc::StatusCode code, const std::string& message,
                              const google::protobuf::Message& detail);
v1::CompileRequest RequestFor(const std::string& source);

class FakeKernelService final : public v1::KernelService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::CompileStreamResponse, v1::CompileStreamRequest>;

  // What each call does; set before the call. By default a Compile answers AnswerTo, a stream does
  // so in order, a look-up finds nothing, a blob is found in `blobs`, own entries there are none.
  std::function<grpc::Status(const v1::CompileRequest&, v1::CompileResponse*)> on_compile;
  std::function<grpc::Status(Stream*)> on_stream;
  std::function<grpc::Status(const v1::LookupRequest&, v1::LookupResponse*)> on_lookup;
  std::function<grpc::Status(const v1::FetchRequest&, grpc::ServerWriter<v1::FetchChunk>*)>
      on_fetch;
  std::function<grpc::Status(const v1::GetOwnRequest&, v1::GetOwnResponse*)> on_get_own;
  std::function<void(const v1::NoteUsesRequest&)> on_note_uses;
  v1::ListToolchainsResponse toolchains;

  // What came in. The probe of a new connection is a look-up too.
  std::atomic<int> compiles = 0;
  std::atomic<int> streams = 0;
  std::atomic<int> lookups = 0;
  std::atomic<int> fetches = 0;

  grpc::Status Compile(grpc::ServerContext*, const v1::CompileRequest* request,
                       v1::CompileResponse* response) override;
  grpc::Status CompileStream(grpc::ServerContext*, Stream* stream) override;
  grpc::Status Lookup(grpc::ServerContext*, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override;
  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::FetchChunk>* writer) override;
  grpc::Status ListToolchains(grpc::ServerContext*, const v1::ListToolchainsRequest*,
                              v1::ListToolchainsResponse* response) override;
  grpc::Status GetOwn(grpc::ServerContext*, const v1::GetOwnRequest* request,
                      v1::GetOwnResponse* response) override;
  grpc::Status NoteUses(grpc::ServerContext*, const v1::NoteUsesRequest* request,
                        v1::NoteUsesResponse*) override;

  // Found by Fetch, and by Lookup as the only stage of the key that is its digest.
  void AddBlob(const std::string& content);

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> blobs_;
};

// Answers from what the test put here. Exports nothing.
class FakeAdminService final : public admin::v1::AdminService::Service {
 public:
  // What an import of a block does; by default its answer is empty.
  std::function<grpc::Status(const admin::v1::ImportBlockRequest&, admin::v1::ImportBlockResponse*)>
      on_import;
  admin::v1::ExportArtifactsResponse exported;  // the answer to each call
  admin::v1::GetStatsResponse stats;
  admin::v1::ListToolchainsResponse toolchains;
  std::vector<admin::v1::ArtifactSummary> artifacts;  // in the order of their keys
  admin::v1::ListArtifactsRequest listed;             // the last
  std::vector<admin::v1::VerifyReport> reports;
  admin::v1::EvictRequest evicted;
  admin::v1::EvictResponse eviction;
  std::vector<admin::v1::PinRequest> pins;
  std::atomic<int> drains = 0;
  std::shared_ptr<Gate> gate;  // where set, stats and verification wait for it

  grpc::Status GetStats(grpc::ServerContext*, const admin::v1::GetStatsRequest*,
                        admin::v1::GetStatsResponse* response) override;
  grpc::Status ListToolchains(grpc::ServerContext*, const admin::v1::ListToolchainsRequest*,
                              admin::v1::ListToolchainsResponse* response) override;
  grpc::Status ListArtifacts(grpc::ServerContext*, const admin::v1::ListArtifactsRequest* request,
                             admin::v1::ListArtifactsResponse* response) override;
  grpc::Status InspectArtifact(grpc::ServerContext*,
                               const admin::v1::InspectArtifactRequest* request,
                               admin::v1::InspectArtifactResponse* response) override;
  grpc::Status Evict(grpc::ServerContext*, const admin::v1::EvictRequest* request,
                     admin::v1::EvictResponse* response) override;
  grpc::Status Pin(grpc::ServerContext*, const admin::v1::PinRequest* request,
                   admin::v1::PinResponse*) override;
  grpc::Status Verify(grpc::ServerContext*, const admin::v1::VerifyRequest*,
                      grpc::ServerWriter<admin::v1::VerifyReport>* writer) override;
  // Says that it is the last of `toolchains`.
  grpc::Status AddToolchain(grpc::ServerContext*, const admin::v1::AddToolchainRequest* request,
                            admin::v1::AddToolchainResponse* response) override;
  // Refuses every selector as ambiguous.
  grpc::Status RemoveToolchain(grpc::ServerContext*, const admin::v1::RemoveToolchainRequest*,
                               admin::v1::RemoveToolchainResponse*) override;
  grpc::Status Drain(grpc::ServerContext*, const admin::v1::DrainRequest*,
                     admin::v1::DrainResponse*) override;
  grpc::Status ExportArtifacts(grpc::ServerContext*, const admin::v1::ExportArtifactsRequest*,
                               admin::v1::ExportArtifactsResponse*) override;
  grpc::Status ImportBlock(grpc::ServerContext*, const admin::v1::ImportBlockRequest* request,
                           admin::v1::ImportBlockResponse* response) override;
};

// Answers callers who may see no more than their own.
class FakeOwnService final : public admin::v1::OwnService::Service {
 public:
  admin::v1::GetStatsResponse stats;
  std::vector<admin::v1::ArtifactSummary> artifacts;

  grpc::Status GetStats(grpc::ServerContext*, const admin::v1::GetStatsRequest*,
                        admin::v1::GetStatsResponse* response) override;
  grpc::Status ListArtifacts(grpc::ServerContext*, const admin::v1::ListArtifactsRequest*,
                             admin::v1::ListArtifactsResponse* response) override;
};

// Serves both on <root>/run/{kilnd,admin}.sock from construction on; kernels on either, as kilnd
// does.
class FakeDaemon {
 public:
  FakeDaemon();
  ~FakeDaemon() { Stop(); }

  // Ends every call and closes the sockets.
  void Stop();
  void Start();
  // Takes the administration socket away.
  void CloseAdministration() { admin_server_.reset(); }

  FakeKernelService& kernels() { return kernels_; }
  FakeAdminService& admin() { return admin_; }
  FakeOwnService& own() { return own_; }
  const std::string& root() const { return directory_.path(); }
  // Finds this daemon, and does not wait long for anything.
  ConnectOptions Options() const;

 private:
  TempDirectory directory_;
  FakeKernelService kernels_;
  FakeAdminService admin_;
  FakeOwnService own_;
  std::unique_ptr<grpc::Server> kernel_server_;
  std::unique_ptr<grpc::Server> admin_server_;
};

// A socket that the kernel connects to and nobody serves: a daemon that is stopped.
class DeafListener {
 public:
  explicit DeafListener(const std::string& path, int backlog = 16);
  ~DeafListener();
  DeafListener(const DeafListener&) = delete;
  DeafListener& operator=(const DeafListener&) = delete;

 private:
  int descriptor_;
};

}  // namespace kiln
