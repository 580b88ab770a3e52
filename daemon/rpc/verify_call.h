// One Verify.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "daemon/rpc/admin_actions.h"
#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/base/mutex.h"

namespace kiln {

// Verifies on a thread of its own, because it takes as long as reading the whole store, and waits
// for each report to be written before it goes on: a client that stops reading stops the
// verification, and one that leaves ends it. Deletes itself in OnDone.
class VerifyCall final : public grpc::ServerWriteReactor<admin::v1::VerifyReport> {
 public:
  // Started; gRPC takes it from here.
  static VerifyCall* Start(const AdminActions& actions, CallContext context);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  void Run(const AdminActions& actions, const CallContext& context);
  // Blocks until it is written.
  void Write(const VerificationProgress& progress);

  Cancellation cancellation_;
  // The thread's.
  admin::v1::VerifyReport report_;
  size_t told_ = 0;  // of the damaged

  Mutex mutex_;
  CondVar written_;
  bool is_writing_ KILN_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln
