// What clients ask of the daemon (protos/kiln/v1/kernel_service.proto), on behalf of one principal.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "daemon/rpc/rpc_dependencies.h"

namespace kiln {

// Thread-safe. Methods run on gRPC's few threads: a hit is answered right there, everything that
// waits or reads much goes elsewhere. The parts outlive the service.
std::unique_ptr<grpc::Service> MakeKernelService(const RpcDependencies& parts,
                                                 const Principal& principal);

}  // namespace kiln
