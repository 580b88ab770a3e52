#include "daemon/rpc/verify_call.h"

#include <string>
#include <utility>

#include "daemon/rpc/status.h"

namespace kiln {

VerifyCall* VerifyCall::Start(const AdminActions& actions, CallContext context) {
  auto* call = new VerifyCall;
  context.cancellation = call->cancellation_;
  // Under the lock, so that the thread cannot be through before it is known as `thread_`.
  const std::lock_guard lock(call->mutex_);
  call->thread_ =
      std::thread([call, &actions, context = std::move(context)] { call->Run(actions, context); });
  return call;
}

void VerifyCall::Run(const AdminActions& actions, const CallContext& context) {
  VerifyProgress last;
  const absl::Status status = actions.verify(context, [&](const VerifyProgress& progress) {
    Write(progress, /*is_last=*/false);
    last = progress;
  });
  last.quarantined.clear();
  if (status.ok()) Write(last, /*is_last=*/true);
  Finish(ToGrpcStatus(status));
}

void VerifyCall::Write(const VerifyProgress& progress, bool is_last) {
  report_.Clear();
  report_.set_checked(progress.checked);
  report_.set_checked_bytes(progress.checked_bytes);
  for (const Digest& key : progress.quarantined) {
    report_.add_quarantined_keys(std::string(key.Bytes()));
  }
  report_.set_done(is_last);
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
  thread_.join();
  delete this;
}

}  // namespace kiln
