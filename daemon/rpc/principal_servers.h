// A gRPC server for each principal.
#pragma once

#include <map>
#include <memory>

#include "daemon/rpc/admin_actions.h"
#include "daemon/rpc/rpc_dependencies.h"
#include "daemon/rpc/sockets/connection_sink.h"
#include "storage/base/clock.h"
#include "storage/base/mutex.h"

namespace kiln {

// gRPC hands a service no peer on a Unix socket, so whoever connects is served by a server (about
// 20 kB, and a thread for an operator's) whose services already know the principal. Made on the
// first connection and kept; when there are too many, those without a connection make room.
// Operators always find room.
//
// Thread-safe. Parts and actions outlive it.
class PrincipalServers final : public ConnectionSink {
 public:
  PrincipalServers(const RpcDependencies& parts, const AdminActions& actions);
  // Shuts down, at once.
  ~PrincipalServers() override;

  // RESOURCE_EXHAUSTED where there are too many principals, UNAVAILABLE after Shutdown.
  absl::Status Serve(UniqueFd connection, const Principal& principal) override;
  void OnClosed(const Principal& principal) override;

  // What the health service says on all connections, also to come.
  void SetServing(bool is_serving);
  // Ends all connections; calls under way have until `deadline`, then they are cancelled.
  // Idempotent; blocks until all have ended.
  void Shutdown(SteadyTime deadline);

 private:
  struct Server;

  absl::StatusOr<Server*> FindOrStart(const Principal& principal) KILN_REQUIRES(mutex_);
  // One without a connection, taken out; null where all have some.
  std::unique_ptr<Server> TakeIdle() KILN_REQUIRES(mutex_);
  // Divides what gRPC may buffer among those that have a connection.
  void ShareBuffers() KILN_REQUIRES(mutex_);

  const RpcDependencies& parts_;
  const AdminActions& actions_;

  Mutex mutex_;
  std::map<Principal, std::unique_ptr<Server>> servers_ KILN_GUARDED_BY(mutex_);
  bool is_serving_ KILN_GUARDED_BY(mutex_) = true;
  bool is_shut_down_ KILN_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln
