#include "daemon/rpc/verify_call.h"

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/rpc/status.h"

namespace kiln {

VerifyCall* VerifyCall::Start(const AdminActions& actions, CallContext context) {
  auto* call = new VerifyCall;
  context.cancellation = call->cancellation_;
  try {
    // Its last act is Finish, and gRPC waits for that before the daemon ends.
    std::thread([call, &actions, context = std::move(context)] {
      call->Run(actions, context);
    }).detach();
  } catch (const std::system_error&) {
    call->Finish(ToGrpcStatus(ResourceExhausted(
        "the daemon cannot start another thread; try again when it has less to do")));
  }
  return call;
}

void VerifyCall::Run(const AdminActions& actions, const CallContext& context) {
  Finish(ToGrpcStatus(
      actions.verify(context, [this](const VerificationProgress& progress) { Write(progress); })));
}

void VerifyCall::Write(const VerificationProgress& progress) {
  report_.Clear();
  report_.set_checked(progress.checked);
  report_.set_checked_bytes(progress.checked_bytes);
  for (; told_ < progress.damaged.size(); ++told_) {
    report_.add_quarantined_keys(std::string(progress.damaged[told_].Bytes()));
  }
  report_.set_done(progress.done);
  MutexLock lock(mutex_);
  is_writing_ = true;
  StartWrite(&report_);
  while (is_writing_) written_.Wait(mutex_);
}

void VerifyCall::OnWriteDone(bool ok) {
  if (!ok) cancellation_.Cancel();
  const MutexLock lock(mutex_);
  is_writing_ = false;
  written_.NotifyAll();
}

}  // namespace kiln
