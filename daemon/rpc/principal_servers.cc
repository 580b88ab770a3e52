#include "daemon/rpc/principal_servers.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>
#include <vector>

#include "daemon/rpc/admin_service.h"
#include "daemon/rpc/kernel_service.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// What is not said here is gRPC's own choice, and nothing of that grows without bound.
void SetLimits(grpc::ServerBuilder& builder, milliseconds silent_time) {
  builder.SetMaxReceiveMessageSize(limits::kRequestBytesMax);
  builder.SetMaxSendMessageSize(limits::kClientReceiveBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             limits::kConcurrentStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(limits::kMetadataBytesMax));
  // The kernel tells at once when a local peer is gone; pings would only wake idle processes.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  // No limit. gRPC would keep 3 kB of words for each ping beyond it while the client does not read;
  // of answers to pings it keeps 10,000 and then reads no more.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // Also ends connections whose client never completes its preface.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(silent_time.count()));
}

// Reflection is the only service that takes threads: at least one for each server.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

// False: gRPC would end the process.
bool CanHaveThread() {
  pthread_t thread;
  const auto run = [](void*) -> void* { return nullptr; };
  return ::pthread_create(&thread, nullptr, run, nullptr) == 0 &&
         ::pthread_join(thread, nullptr) == 0;
}

class RefusedCall final : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusedCall(grpc::Status status) { Finish(std::move(status)); }
  void OnDone() override { delete this; }
};

// Takes calls of methods that the clients' socket does not have. Who connects to the wrong socket
// is told so.
class OtherMethods final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    const bool is_admin = call->method().starts_with(
        fmt::format("/{}/", admin::v1::AdminService::service_full_name()));
    if (!is_admin) return new RefusedCall({grpc::StatusCode::UNIMPLEMENTED, "no such method"});
    return new RefusedCall(
        {grpc::StatusCode::PERMISSION_DENIED,
         "this is kilnd.sock, which is for clients; administration is on admin.sock "
         "beside it"});
  }
};

}  // namespace

struct PrincipalServers::Server {
  Server(const RpcDependencies& parts, const AdminActions& actions, const Principal& principal)
      : kernel(MakeKernelService(parts, principal)),
        admin(principal.is_admin ? MakeAdminService(parts, actions, principal)
                                 : MakeOwnService(parts, actions, principal)) {
    grpc::ServerBuilder builder;
    SetLimits(builder, parts.silent_time);
    builder.SetResourceQuota(quota);
    builder.RegisterService(kernel.get());
    if (!principal.is_admin || !CanHaveThread()) {
      builder.SetOption(std::make_unique<WithoutReflection>());
    }
    builder.RegisterService(admin.get());
    if (!principal.is_admin) builder.RegisterCallbackGenericService(other_methods.get());
    server = builder.BuildAndStart();
  }

  void SetServing(bool is_serving) const {
    grpc::HealthCheckServiceInterface* health = server->GetHealthCheckService();
    health->SetServingStatus(is_serving);
    health->SetServingStatus(v1::KernelService::service_full_name(), is_serving);
  }

  const std::unique_ptr<grpc::Service> kernel;
  const std::unique_ptr<grpc::Service> admin;
  const std::unique_ptr<grpc::CallbackGenericService> other_methods =
      std::make_unique<OtherMethods>();
  grpc::ResourceQuota quota;  // of PrincipalServers::ShareBuffers
  // After the services, which it uses until it is destroyed.
  std::unique_ptr<grpc::Server> server;
  size_t connections = 0;
};

PrincipalServers::PrincipalServers(const RpcDependencies& parts, const AdminActions& actions)
    : parts_(parts), actions_(actions) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // One reference to the library that is never given back: shutting it down waits for a poller of
  // its own that sleeps for up to ten seconds, which would be added to every stop of the daemon.
  grpc_init();
}

PrincipalServers::~PrincipalServers() { Shutdown(SteadyTime::min()); }

absl::Status PrincipalServers::Serve(UniqueFd connection, const Principal& principal) {
  std::unique_ptr<Server> idle;
  const MutexLock lock(mutex_);
  if (is_shut_down_) return Unavailable("the daemon is shutting down");
  // An operator must get in when everybody else is in.
  const bool is_operator = principal.is_admin || principal.uid == 0;
  if (servers_.count(principal) == 0 && servers_.size() >= limits::kPrincipalsMax && !is_operator) {
    idle = TakeIdle();
    if (idle == nullptr) {
      return ResourceExhausted("{} users are connected; that is the most", servers_.size());
    }
    idle->server->Shutdown(system_clock::now());
  }
  KILN_ASSIGN_OR_RETURN(Server* const server, FindOrStart(principal));
  ++server->connections;
  ShareBuffers();
  grpc::AddInsecureChannelFromFd(server->server.get(), connection.Release());
  return absl::OkStatus();
}

absl::StatusOr<PrincipalServers::Server*> PrincipalServers::FindOrStart(
    const Principal& principal) {
  std::unique_ptr<Server>& slot = servers_[principal];
  if (slot == nullptr) {
    slot = std::make_unique<Server>(parts_, actions_, principal);
    if (slot->server == nullptr) {
      servers_.erase(principal);
      return Internal("gRPC did not start a server for uid {}", principal.uid);
    }
    slot->SetServing(is_serving_);
    LogInfo("first connection of a user", {{"uid", principal.uid}, {"admin", principal.is_admin}});
  }
  return slot.get();
}

std::unique_ptr<PrincipalServers::Server> PrincipalServers::TakeIdle() {
  for (auto it = servers_.begin(); it != servers_.end(); ++it) {
    if (it->second->connections > 0) continue;
    std::unique_ptr<Server> idle = std::move(it->second);
    servers_.erase(it);
    return idle;
  }
  return nullptr;
}

void PrincipalServers::OnClosed(const Principal& principal) {
  const MutexLock lock(mutex_);
  const auto found = servers_.find(principal);
  if (found == servers_.end()) return;
  --found->second->connections;
  ShareBuffers();
}

void PrincipalServers::ShareBuffers() {
  const size_t connected = std::ranges::count_if(servers_, [](const auto& server) {
    return !server.first.is_admin && server.second->connections > 0;
  });
  const size_t each = limits::kRequestBufferBytesMax / std::max<size_t>(connected, 1);
  for (const auto& [principal, server] : servers_) {
    server->quota.Resize((principal.is_admin ? limits::kOperatorBufferBytesMax : each) +
                         server->connections * limits::kConnectionBufferBytesMax);
  }
}

void PrincipalServers::SetServing(bool is_serving) {
  const MutexLock lock(mutex_);
  is_serving_ = is_serving;
  for (const auto& [principal, server] : servers_) server->SetServing(is_serving);
}

void PrincipalServers::Shutdown(SteadyTime deadline) {
  std::map<Principal, std::unique_ptr<Server>> servers;
  {
    const MutexLock lock(mutex_);
    is_shut_down_ = true;
    servers.swap(servers_);
  }
  const auto left = std::chrono::duration_cast<milliseconds>(
      std::max(deadline, std::chrono::steady_clock::now()) - std::chrono::steady_clock::now());
  // One after the other: whoever is late has had as long, and a thread for each may not be had.
  const auto until = system_clock::now() + left;
  for (const auto& [principal, server] : servers) server->server->Shutdown(until);
}

}  // namespace kiln
