// What operators ask of the daemon (protos/kiln/admin/v1/admin_service.proto).
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "daemon/rpc/admin_actions.h"
#include "daemon/rpc/rpc_dependencies.h"

namespace kiln {

// Thread-safe. Everything that touches the disk runs on the parts' executor, Verify on a thread of
// its own. Parts and actions outlive the service.
std::unique_ptr<grpc::Service> MakeAdminService(const RpcDependencies& parts,
                                                const AdminActions& actions,
                                                const Principal& principal);

// The calls that every user may make on kilnd.sock. They show the caller's own jobs and artifacts.
// Threads and lifetimes as MakeAdminService.
std::unique_ptr<grpc::Service> MakeOwnService(const RpcDependencies& parts,
                                              const AdminActions& actions,
                                              const Principal& principal);

}  // namespace kiln
