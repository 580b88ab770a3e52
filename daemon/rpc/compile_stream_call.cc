#include "daemon/rpc/compile_stream_call.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <utility>

#include "daemon/rpc/compile_call.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/reply_bytes.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

size_t BytesOf(const CompileAnswer& answer) {
  if (!answer.result.ok()) return 0;
  size_t bytes = 0;
  if (const Artifact* artifact = answer.result->artifact()) {
    for (const StageBlob& stage : artifact->stages) bytes += stage.blob.size_bytes();
  }
  return bytes;
}

using google::protobuf::internal::WireFormatLite;

constexpr uint32_t kIdTag = WireFormatLite::MakeTag(v1::CompileStreamRequest::kIdFieldNumber,
                                                    WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kRequestTag = WireFormatLite::MakeTag(
    v1::CompileStreamRequest::kRequestFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

}  // namespace

std::optional<StreamItem> ReadStreamItem(std::string_view bytes) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  StreamItem item;
  while (const uint32_t tag = input.ReadTag()) {
    bool is_read;
    if (uint32_t size; tag == kRequestTag) {
      is_read = input.ReadVarint32(&size);
      if (is_read) item.request = bytes.substr(static_cast<size_t>(input.CurrentPosition()), size);
      is_read = is_read && input.Skip(static_cast<int>(size));
    } else if (tag == kIdTag) {
      is_read = input.ReadVarint64(&item.id);
    } else {
      is_read = WireFormatLite::SkipField(&input, tag);
    }
    if (!is_read) return std::nullopt;
  }
  if (!input.ConsumedEntireMessage()) return std::nullopt;
  return item;
}

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
  grpc::Slice slice;
  std::optional<StreamItem> item;
  bool is_new;
  {
    const MutexLock lock(mutex_);
    is_reading_ = false;
    if (ok) item = ReadStreamItem(ToSingleSlice(request_, slice));
    if (!item) {
      was_read_to_end_ = true;
      return Proceed();
    }
    is_new = !ids_.contains(item->id);
    ids_.insert(item->id);
    ++in_flight_;
    request_bytes_ += item->request.size();
  }
  const uint64_t id = item->id;
  const size_t bytes = item->request.size();
  // Compiled without the lock: a hit answers before this returns.
  const Prepared prepared = is_new ? Prepare(parts_, item->request)
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
  response_.Clear();
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
  // The client may use it again as soon as the answer is there.
  ids_.erase(ids_.find(next.id));
  ReplyPieces pieces = SerializeStreamAnswer(next.id, next.answer);
  auto share = unread_.Take(SizeOf(pieces));
  if (!share.ok()) {
    pieces = SerializeStreamAnswer(next.id, {share.status(), next.answer.job});
    share = nullptr;
  }
  response_ = ToByteBuffer(std::move(pieces), *std::move(share));
  is_writing_ = true;
  writing_ = std::move(next.answer.pass);
  StartWrite(&response_);
}

}  // namespace kiln
