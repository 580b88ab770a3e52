#include "tests/unit/client/fake_daemon.h"

#include <grpcpp/server_builder.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "client/cli/output/format.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr size_t kChunkBytes = 64 * limits::kKiB;

std::string DigestOf(const std::string& content) {
  return std::string(Digest::Of(content).Bytes());
}

std::unique_ptr<grpc::Server> Serve(const std::vector<grpc::Service*>& services,
                                    const std::string& path) {
  grpc::ServerBuilder builder;
  for (grpc::Service* service : services) builder.RegisterService(service);
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(limits::kRequestBytesMax);
  return builder.BuildAndStart();
}

}  // namespace

void Gate::Open() {
  const std::lock_guard lock(mutex_);
  is_open_ = true;
  opened_.notify_all();
}

void Gate::Await() {
  std::unique_lock lock(mutex_);
  opened_.wait(lock, [this] { return is_open_; });
}

v1::StageBlob DistantStage(const std::string& name, const std::string& content) {
  v1::StageBlob stage;
  stage.set_stage(name);
  stage.set_digest(DigestOf(content));
  stage.set_size_bytes(content.size());
  return stage;
}

v1::StageBlob InlineStage(const std::string& name, const std::string& content) {
  v1::StageBlob stage = DistantStage(name, content);
  stage.set_content(content);
  return stage;
}

v1::CompileResponse AnswerTo(const v1::CompileRequest& request) {
  v1::CompileResponse response;
  response.set_key(DigestOf(request.source().text()));
  response.set_outcome(v1::OUTCOME_COMPILED);
  response.mutable_metadata()->set_name("kernel");
  *response.mutable_metadata()->mutable_target() = request.target();
  *response.add_stages() = InlineStage("cubin", "cubin of " + request.source().text());
  return response;
}

grpc::Status StatusWithDetail(grpc::StatusCode code, const std::string& message,
                              const google::protobuf::Message& detail) {
  v1::RpcStatus details;
  details.set_code(code);
  details.set_message(message);
  details.add_details()->PackFrom(detail);
  return grpc::Status(code, message, details.SerializeAsString());
}

v1::CompileRequest RequestFor(const std::string& source) {
  v1::CompileRequest request;
  request.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
  request.mutable_source()->set_text(source);
  request.mutable_target()->set_backend("cuda");
  request.mutable_target()->set_architecture("90");
  return request;
}

void FakeKernelService::AddBlob(const std::string& content) {
  const std::lock_guard lock(mutex_);
  blobs_[DigestOf(content)] = content;
}

grpc::Status FakeKernelService::Compile(grpc::ServerContext*, const v1::CompileRequest* request,
                                        v1::CompileResponse* response) {
  ++compiles;
  if (on_compile) return on_compile(*request, response);
  *response = AnswerTo(*request);
  return grpc::Status::OK;
}

grpc::Status FakeKernelService::CompileStream(grpc::ServerContext*, Stream* stream) {
  ++streams;
  if (on_stream) return on_stream(stream);
  v1::CompileStreamRequest request;
  while (stream->Read(&request)) {
    v1::CompileStreamResponse response;
    response.set_id(request.id());
    *response.mutable_response() = AnswerTo(request.request());
    if (!stream->Write(response)) break;
  }
  return grpc::Status::OK;
}

grpc::Status FakeKernelService::Lookup(grpc::ServerContext*, const v1::LookupRequest* request,
                                       v1::LookupResponse* response) {
  ++lookups;
  if (on_lookup) return on_lookup(*request, response);
  const std::lock_guard lock(mutex_);
  for (const std::string& key : request->keys()) {
    auto& entry = *response->add_entries();
    entry.set_key(key);
    const auto blob = blobs_.find(key);
    entry.set_found(blob != blobs_.end());
    if (entry.found()) *entry.add_stages() = DistantStage("cubin", blob->second);
  }
  return grpc::Status::OK;
}

grpc::Status FakeKernelService::Fetch(grpc::ServerContext*, const v1::FetchRequest* request,
                                      grpc::ServerWriter<v1::FetchChunk>* writer) {
  ++fetches;
  if (on_fetch) return on_fetch(*request, writer);
  const std::lock_guard lock(mutex_);
  const auto blob = blobs_.find(request->digest());
  if (blob == blobs_.end()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such blob");
  for (size_t begin = 0; begin < blob->second.size(); begin += kChunkBytes) {
    v1::FetchChunk chunk;
    chunk.set_content(blob->second.substr(begin, kChunkBytes));
    if (!writer->Write(chunk)) break;
  }
  return grpc::Status::OK;
}

grpc::Status FakeKernelService::ListToolchains(grpc::ServerContext*,
                                               const v1::ListToolchainsRequest*,
                                               v1::ListToolchainsResponse* response) {
  *response = toolchains;
  return grpc::Status::OK;
}

grpc::Status FakeKernelService::GetOwn(grpc::ServerContext*, const v1::GetOwnRequest* request,
                                       v1::GetOwnResponse* response) {
  return on_get_own ? on_get_own(*request, response) : grpc::Status::OK;
}

grpc::Status FakeKernelService::NoteUses(grpc::ServerContext*, const v1::NoteUsesRequest* request,
                                         v1::NoteUsesResponse*) {
  if (on_note_uses) on_note_uses(*request);
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::GetStats(grpc::ServerContext*, const admin::v1::GetStatsRequest*,
                                        admin::v1::GetStatsResponse* response) {
  if (gate != nullptr) gate->Await();
  *response = stats;
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::ListToolchains(grpc::ServerContext*,
                                              const admin::v1::ListToolchainsRequest*,
                                              admin::v1::ListToolchainsResponse* response) {
  *response = toolchains;
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::ListArtifacts(grpc::ServerContext*,
                                             const admin::v1::ListArtifactsRequest* request,
                                             admin::v1::ListArtifactsResponse* response) {
  listed = *request;
  for (const auto& artifact : artifacts) {
    if (!request->after().empty() && artifact.key() <= request->after()) continue;
    if (!cli::Hex(artifact.key()).starts_with(request->key_prefix())) continue;
    if (artifact.name().find(request->kernel()) == std::string::npos) continue;
    if (request->limit() > 0 && response->artifacts_size() == static_cast<int>(request->limit())) {
      response->set_next(response->artifacts(response->artifacts_size() - 1).key());
      break;
    }
    *response->add_artifacts() = artifact;
  }
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::InspectArtifact(grpc::ServerContext*,
                                               const admin::v1::InspectArtifactRequest* request,
                                               admin::v1::InspectArtifactResponse* response) {
  for (const auto& artifact : artifacts) {
    if (!cli::Hex(artifact.key()).starts_with(request->key_prefix())) continue;
    *response->mutable_summary() = artifact;
    response->mutable_metadata()->set_name(artifact.name());
    return grpc::Status::OK;
  }
  return grpc::Status(grpc::StatusCode::NOT_FOUND, "no key begins so");
}

grpc::Status FakeAdminService::Evict(grpc::ServerContext*, const admin::v1::EvictRequest* request,
                                     admin::v1::EvictResponse* response) {
  evicted = *request;
  *response = eviction;
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::Pin(grpc::ServerContext*, const admin::v1::PinRequest* request,
                                   admin::v1::PinResponse*) {
  pins.push_back(*request);
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::Verify(grpc::ServerContext*, const admin::v1::VerifyRequest*,
                                      grpc::ServerWriter<admin::v1::VerifyReport>* writer) {
  if (gate != nullptr) gate->Await();
  for (const auto& report : reports) writer->Write(report);
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::AddToolchain(grpc::ServerContext*,
                                            const admin::v1::AddToolchainRequest* request,
                                            admin::v1::AddToolchainResponse* response) {
  const v1::Toolchain& last = toolchains.toolchains().rbegin()->toolchain();
  response->set_name(last.name() + "==" + last.version());
  response->set_fingerprint(last.fingerprint());
  response->set_installation(request->path());
  response->set_is_new(true);
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::RemoveToolchain(grpc::ServerContext*,
                                               const admin::v1::RemoveToolchainRequest* request,
                                               admin::v1::RemoveToolchainResponse*) {
  return grpc::Status(
      grpc::StatusCode::INVALID_ARGUMENT,
      "say which: " + request->selector() + "==12.8.93, " + request->selector() + "==13.0.88");
}

grpc::Status FakeAdminService::ExportArtifacts(grpc::ServerContext*,
                                               const admin::v1::ExportArtifactsRequest*,
                                               admin::v1::ExportArtifactsResponse* response) {
  *response = exported;
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::ImportBlock(grpc::ServerContext*,
                                           const admin::v1::ImportBlockRequest* request,
                                           admin::v1::ImportBlockResponse* response) {
  return on_import ? on_import(*request, response) : grpc::Status::OK;
}

grpc::Status FakeOwnService::GetStats(grpc::ServerContext*, const admin::v1::GetStatsRequest*,
                                      admin::v1::GetStatsResponse* response) {
  *response = stats;
  return grpc::Status::OK;
}

grpc::Status FakeOwnService::ListArtifacts(grpc::ServerContext*,
                                           const admin::v1::ListArtifactsRequest*,
                                           admin::v1::ListArtifactsResponse* response) {
  response->mutable_artifacts()->Assign(artifacts.begin(), artifacts.end());
  return grpc::Status::OK;
}

grpc::Status FakeAdminService::Drain(grpc::ServerContext*, const admin::v1::DrainRequest*,
                                     admin::v1::DrainResponse*) {
  ++drains;
  return grpc::Status::OK;
}

FakeDaemon::FakeDaemon() {
  ::mkdir(directory_.File("run").c_str(), 0700);
  Start();
}

void FakeDaemon::Start() {
  kernel_server_ = Serve({&kernels_, &own_}, directory_.File("run/kilnd.sock"));
  admin_server_ = Serve({&kernels_, &admin_}, directory_.File("run/admin.sock"));
}

void FakeDaemon::Stop() {
  const auto now = std::chrono::system_clock::now();
  for (auto* server : {&kernel_server_, &admin_server_}) {
    if (*server != nullptr) (*server)->Shutdown(now);
    server->reset();
  }
}

ConnectOptions FakeDaemon::Options() const {
  ConnectOptions options;
  options.root = directory_.path();
  options.connect_budget = std::chrono::seconds(10);
  options.answer_budget = std::chrono::seconds(20);
  options.retry.backoff_first = std::chrono::milliseconds(1);
  options.retry.backoff_max = std::chrono::milliseconds(2);
  return options;
}

DeafListener::DeafListener(const std::string& path, int backlog)
    : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) std::abort();
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(descriptor_, backlog) != 0) {
    std::abort();
  }
}

DeafListener::~DeafListener() { ::close(descriptor_); }

}  // namespace kiln
