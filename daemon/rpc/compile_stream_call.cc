#include "daemon/rpc/compile_stream_call.h"

#include <utility>

#include "daemon/messages/translate.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/status.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

void Fill(const CompileAnswer& answer, v1::CompileStreamResponse& out) {
  if (!answer.result.ok()) return SetError(answer.result.status(), KeyOf(answer), out);
  const CompileResult& result = *answer.result;
  if (const CompileFailure* failure = result.failure()) {
    return SetError(*failure, answer.job->key, out);
  }
  const absl::Status status = ToProto(*result.artifact(), result.outcome, result.tier,
                                      answer.job->request.stages, *out.mutable_response());
  if (!status.ok()) {
    out.clear_response();
    SetError(status, KeyOf(answer), out);
  }
}

size_t BytesOf(const CompileAnswer& answer) {
  if (!answer.result.ok()) return 0;
  size_t bytes = 0;
  if (const Artifact* artifact = answer.result->artifact()) {
    for (const StageBlob& stage : artifact->stages) bytes += stage.blob.size_bytes();
  }
  return bytes;
}

}  // namespace

CompileStreamCall* CompileStreamCall::Start(const RpcDependencies& parts,
                                            const Principal& principal, ByteBudget& unread,
                                            const grpc::CallbackServerContext& call) {
  const std::shared_ptr<CompileStreamCall> stream(
      new CompileStreamCall(parts, unread, CallContextOf(call, principal)));
  stream->self_ = stream;
  const MutexLock lock(stream->mutex_);
  stream->Proceed();
  return stream.get();
}

void CompileStreamCall::OnReadDone(bool ok) {
  const auto share = shared_from_this();
  uint64_t id;
  size_t bytes;
  bool is_new;
  v1::CompileRequest request;
  {
    const MutexLock lock(mutex_);
    is_reading_ = false;
    if (!ok) {
      was_read_to_end_ = true;
      return Proceed();
    }
    id = request_.id();
    bytes = request_.request().ByteSizeLong();
    request.Swap(request_.mutable_request());
    is_new = !ids_.contains(id);
    ids_.insert(id);
    ++in_flight_;
    request_bytes_ += bytes;
  }
  // Compiled without the lock: a hit answers before this returns.
  const Prepared prepared = is_new ? Prepare(parts_, std::move(request))
                                   : InvalidArgument("the id {} is in flight already", id);
  if (auto found = FindAnswer(parts_, context_, prepared)) {
    Answer(id, bytes, *std::move(found));
  } else {
    StartCompile(parts_, context_, prepared, [share, id, bytes](CompileAnswer answer) {
      share->Answer(id, bytes, std::move(answer));
    });
  }
  const MutexLock lock(mutex_);
  Proceed();
}

// REQUIRES: the caller holds a share.
void CompileStreamCall::Answer(uint64_t id, size_t request_bytes, CompileAnswer answer) {
  const size_t bytes = BytesOf(answer);
  const MutexLock lock(mutex_);
  request_bytes_ -= request_bytes;
  unsent_bytes_ += bytes;
  unsent_.push_back({id, std::move(answer), bytes});
  Proceed();
}

void CompileStreamCall::OnWriteDone(bool ok) {
  const auto share = shared_from_this();
  const MutexLock lock(mutex_);
  is_writing_ = false;
  writing_.reset();
  share_.reset();
  --in_flight_;
  if (!ok) is_broken_ = true;
  Proceed();
}

void CompileStreamCall::OnCancel() {
  const auto share = shared_from_this();
  {
    const MutexLock lock(mutex_);
    is_broken_ = true;
    Proceed();
  }
  // Answers come in here, some of them on this thread.
  context_.cancellation.Cancel();
}

void CompileStreamCall::Proceed() {
  if (is_broken_) {
    in_flight_ -= unsent_.size();
    unsent_.clear();
    unsent_bytes_ = 0;
  }
  if (!is_writing_ && !unsent_.empty()) WriteNext();
  if (MayRead()) ReadNext();
  const bool is_over = was_read_to_end_ || is_broken_;
  if (is_over && !is_finished_ && !is_reading_ && !is_writing_ && in_flight_ == 0) {
    is_finished_ = true;
    Finish(is_broken_ ? grpc::Status::CANCELLED : grpc::Status::OK);
  }
}

bool CompileStreamCall::MayRead() const {
  return !is_reading_ && !was_read_to_end_ && !is_broken_ &&
         in_flight_ < limits::kStreamInFlightMax &&
         request_bytes_ <= limits::kStreamRequestBytesMax &&
         unsent_bytes_ <= limits::kStreamUnsentBytesMax;
}

void CompileStreamCall::ReadNext() {
  is_reading_ = true;
  request_.Clear();
  StartRead(&request_);
}

void CompileStreamCall::WriteNext() {
  Waiting next = std::move(unsent_.front());
  unsent_.pop_front();
  unsent_bytes_ -= next.bytes;
  response_.Clear();
  response_.set_id(next.id);
  // The client may use it again as soon as the answer is there.
  ids_.erase(ids_.find(next.id));
  Fill(next.answer, response_);
  // The message, and what gRPC makes of it.
  if (auto share = unread_.Take(2 * response_.ByteSizeLong()); share.ok()) {
    share_ = *std::move(share);
  } else {
    response_.clear_response();
    SetError(share.status(), KeyOf(next.answer), response_);
  }
  is_writing_ = true;
  writing_ = std::move(next.answer.pass);
  StartWrite(&response_);
}

}  // namespace kiln
