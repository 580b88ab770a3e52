// The methods of KernelService but Compile (compile_start.h), without a transport. gRPC's way in
// and the light one share them, so no rule stands twice.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/blob.h"

namespace kiln {

// Each calls `answered` exactly once, on any thread, possibly before it returns. Parts, request and
// response live until then. Errors as protos/kiln/v1/kernel_service.proto says. Thread-safe; does
// not block, but for an executor whose queue is full.
using Answered = std::function<void(const absl::Status&)>;
template <class Request, class Response>
using KernelMethod = void (*)(const RpcDependencies&, const CallContext&, const Request&, Response&,
                              Answered);
void Lookup(const RpcDependencies& parts, const CallContext& context,
            const v1::LookupRequest& request, v1::LookupResponse& response, Answered answered);
void Nearest(const RpcDependencies& parts, const CallContext& context,
             const v1::NearestRequest& request, v1::NearestResponse& response, Answered answered);
void ListToolchains(const RpcDependencies& parts, const CallContext& context,
                    const v1::ListToolchainsRequest& request, v1::ListToolchainsResponse& response,
                    Answered answered);
void GetOwn(const RpcDependencies& parts, const CallContext& context,
            const v1::GetOwnRequest& request, v1::GetOwnResponse& response, Answered answered);
void PutOwn(const RpcDependencies& parts, const CallContext& context,
            const v1::PutOwnRequest& request, v1::PutOwnResponse& response, Answered answered);
void NoteUses(const RpcDependencies& parts, const CallContext& context,
              const v1::NoteUsesRequest& request, v1::NoteUsesResponse& response,
              Answered answered);

// An entry of the caller's own namespace, or of the tunings that the caller shares; without the
// contents that are outputs of artifacts. Nothing for another's record, or a damaged one. Counts as
// no use. Blocks.
std::optional<v1::OwnEntry> OwnEntryOf(const RpcDependencies& parts, const CallContext& context,
                                       const ArtifactRecord& stored);

// Reads a request. INVALID_ARGUMENT where the bytes are no such message.
absl::Status Parse(std::string_view bytes, google::protobuf::MessageLite& request);

// Leases an artifact for a user who warmed it: one that is stored, or about to be. False: the
// leases have their share.
bool LeaseWarmed(const RpcDependencies& parts, uid_t uid, const Digest& key, uint64_t bytes);

// INVALID_ARGUMENT where a repeated field has more entries than that.
absl::Status CheckCount(std::string_view field, int count, size_t count_max);

// The whole blob. The request need not outlive the call.
void Fetch(const RpcDependencies& parts, const CallContext& context,
           const v1::FetchRequest& request, std::function<void(absl::StatusOr<Blob>)> answered);

}  // namespace kiln
