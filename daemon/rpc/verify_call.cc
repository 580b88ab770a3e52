#include "daemon/rpc/verify_call.h"

#include <string>
#include <system_error>
#include <utility>

#include "daemon/rpc/status.h"

namespace kiln {

VerifyCall* VerifyCall::Start(const AdminActions& actions, CallContext context) {
  auto* call = new VerifyCall;
  context.cancellation = call->cancellation_;
  if (!call->StartThread(actions, std::move(context))) {
    call->Finish(ToGrpcStatus(ResourceExhausted(
        "the daemon cannot start another thread; try again when it has less to do")));
  }
  return call;
}

bool VerifyCall::StartThread(const AdminActions& actions, CallContext context) {
  // Under the lock, so that the thread cannot be through before it is known as `thread_`.
  const std::lock_guard lock(mutex_);
  try {
    thread_ =
        std::thread([this, &actions, context = std::move(context)] { Run(actions, context); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
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
  std::unique_lock lock(mutex_);
  is_writing_ = true;
  StartWrite(&report_);
  written_.wait(lock, [this] { return !is_writing_; });
}

void VerifyCall::OnWriteDone(bool ok) {
  if (!ok) cancellation_.Cancel();
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  written_.notify_all();
}

void VerifyCall::OnDone() {
  { const std::lock_guard lock(mutex_); }
  if (thread_.joinable()) thread_.join();
  delete this;
}

}  // namespace kiln
