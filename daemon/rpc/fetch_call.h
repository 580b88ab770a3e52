// One Fetch.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln {

// Reads the blob off gRPC's threads, then writes it chunk by chunk, one at a time: a client that
// stops reading holds one blob and one chunk. Deletes itself in OnDone.
class FetchCall final : public grpc::ServerWriteReactor<v1::FetchChunk> {
 public:
  // Started; gRPC takes it from here.
  static FetchCall* Start(const RpcDependencies& parts, CallContext context,
                          const v1::FetchRequest& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  void WriteNext();

  Cancellation cancellation_;
  Blob blob_;
  size_t sent_bytes_ = 0;
  v1::FetchChunk chunk_;
};

}  // namespace kiln
