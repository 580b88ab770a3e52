#include "daemon/rpc/compile_stream_call.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <utility>

#include "daemon/rpc/compile_call.h"
#include "daemon/rpc/deferred_call.h"
#include "daemon/rpc/reply_bytes.h"
#include "daemon/rpc/status.h"
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

using google::protobuf::io::CodedInputStream;

constexpr uint32_t kIdTag = WireFormatLite::MakeTag(v1::CompileStreamRequest::kIdFieldNumber,
                                                    WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kRequestTag = WireFormatLite::MakeTag(
    v1::CompileStreamRequest::kRequestFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kMoreTag = WireFormatLite::MakeTag(v1::CompileStreamRequest::kMoreFieldNumber,
                                                      WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kTakesMoreTag = WireFormatLite::MakeTag(
    v1::CompileStreamRequest::kTakesMoreFieldNumber, WireFormatLite::WIRETYPE_VARINT);

bool ReadField(std::string_view bytes, CodedInputStream& input, std::string_view& field) {
  uint32_t size;
  if (!input.ReadVarint32(&size)) return false;
  field = bytes.substr(static_cast<size_t>(input.CurrentPosition()), size);
  return input.Skip(static_cast<int>(size));
}

// Adds the message's own request; of the outer message, those in it, too.
bool ReadItems(std::string_view bytes, bool is_outer, StreamMessage& message) {
  if (message.items.size() == limits::kStreamMessageRequestsMax) return false;
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  StreamMessage::Item& item = message.items.emplace_back();
  while (const uint32_t tag = input.ReadTag()) {
    bool is_read;
    if (tag == kRequestTag) {
      is_read = ReadField(bytes, input, item.request);
    } else if (tag == kIdTag) {
      is_read = input.ReadVarint64(&item.id);
    } else if (std::string_view inner; is_outer && tag == kMoreTag) {
      is_read = ReadField(bytes, input, inner) && ReadItems(inner, false, message);
    } else if (uint64_t said = 0; is_outer && tag == kTakesMoreTag) {
      is_read = input.ReadVarint64(&said);
      message.takes_more = said != 0;
    } else {
      is_read = WireFormatLite::SkipField(&input, tag);
    }
    if (!is_read) return false;
  }
  return input.ConsumedEntireMessage();
}

}  // namespace

std::optional<StreamMessage> ReadStreamMessage(std::string_view bytes) {
  StreamMessage message;
  if (!ReadItems(bytes, /*is_outer=*/true, message)) return std::nullopt;
  return message;
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
  std::optional<StreamMessage> message;
  {
    const MutexLock lock(mutex_);
    is_reading_ = false;
    if (ok) message = ReadStreamMessage(ToSingleSlice(request_, slice));
    if (!message) {
      was_read_to_end_ = true;
      is_unreadable_ = ok;
      return Proceed();
    }
    takes_more_ = message->takes_more;
    in_flight_ += message->items.size();
    is_starting_ = true;
  }
  for (const StreamMessage::Item& item : message->items) Compile(item);
  const MutexLock lock(mutex_);
  is_starting_ = false;
  Proceed();
}

void CompileStreamCall::Compile(const StreamMessage::Item& item) {
  const uint64_t id = item.id;
  const size_t bytes = item.request.size();
  bool is_new;
  {
    const MutexLock lock(mutex_);
    is_new = !ids_.contains(id);
    ids_.insert(id);
    request_bytes_ += bytes;
  }
  const Prepared prepared = is_new ? Prepare(parts_, item.request)
                                   : InvalidArgument("the id {} is in flight already", id);
  if (auto found = FindAnswer(parts_, context_, prepared)) {
    Answer(id, bytes, *std::move(found));
  } else {
    StartCompile(parts_, context_, prepared,
                 [share = shared_from_this(), id, bytes](CompileAnswer answer) {
                   share->Answer(id, bytes, std::move(answer));
                 });
  }
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
  in_flight_ -= writing_.size();
  writing_.clear();
  response_.Clear();
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
  if (!is_writing_ && !is_starting_ && !unsent_.empty()) WriteNext();
  if (MayRead()) ReadNext();
  const bool is_over = was_read_to_end_ || is_broken_;
  if (is_over && !is_finished_ && !is_reading_ && !is_writing_ && in_flight_ == 0) {
    is_finished_ = true;
    Finish(End());
  }
}

grpc::Status CompileStreamCall::End() const {
  if (is_broken_) return grpc::Status::CANCELLED;
  if (!is_unreadable_) return grpc::Status::OK;
  return ToGrpcStatus(InvalidArgument("a message is not a {}, or has more than {} requests",
                                      v1::CompileStreamRequest::descriptor()->full_name(),
                                      limits::kStreamMessageRequestsMax));
}

bool CompileStreamCall::MayRead() const {
  return !is_reading_ && !is_starting_ && !was_read_to_end_ && !is_broken_ &&
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
  ReplySlices slices;
  size_t bytes = 0;
  do {
    Waiting next = std::move(unsent_.front());
    unsent_.pop_front();
    unsent_bytes_ -= next.bytes;
    bytes += next.bytes;
    // The client may use it again as soon as the answer is there.
    ids_.erase(ids_.find(next.id));
    const StreamPlace place = !takes_more_       ? StreamPlace::kAlone
                              : writing_.empty() ? StreamPlace::kFirst
                                                 : StreamPlace::kMore;
    ReplyPieces pieces = SerializeStreamAnswer(next.id, next.answer, place);
    auto share = unread_.Take(SizeOf(pieces));
    if (!share.ok()) {
      pieces = SerializeStreamAnswer(next.id, {share.status(), next.answer.job}, place);
      share = nullptr;
    }
    AppendSlices(std::move(pieces), *std::move(share), slices);
    writing_.push_back(std::move(next.answer.pass));
  } while (takes_more_ && !unsent_.empty() && writing_.size() < limits::kStreamMessageRequestsMax &&
           bytes + unsent_.front().bytes <= limits::kStreamUnsentBytesMax);
  grpc::ByteBuffer(slices.data(), slices.size()).Swap(&response_);
  is_writing_ = true;
  StartWrite(&response_);
}

}  // namespace kiln
