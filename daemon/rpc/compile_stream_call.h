// One CompileStream.
#pragma once

#include <absl/container/inlined_vector.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/rpc/compile_start.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln {

// A CompileStreamRequest whose requests are left as they stand on the wire.
struct StreamMessage {
  struct Item {
    uint64_t id = 0;
    std::string_view request;
  };
  absl::InlinedVector<Item, limits::kStreamMessageRequestsMax> items;
  bool takes_more = false;
};
// Nothing where the bytes are no such message, or one of too many requests.
std::optional<StreamMessage> ReadStreamMessage(std::string_view bytes);

// Reads while few enough requests are in flight, compiles them all at once, writes answers as they
// come, several in a message where the client takes that.
//
// What bounds its memory: a request counts as in flight until its answer has been written. No
// further message is read while kStreamInFlightMax are, or while those there are hold more than
// kStreamRequestBytesMax, or while unwritten answers hold more than kStreamUnsentBytesMax. Answers
// wait as references to the artifact, which the memory tier holds anyway, and become bytes one
// message at a time, which count in the user's budget. As in compile_call.h, requests and answers
// are bytes.
//
// Threads: reads, writes, cancellation and the compile path's answers meet here on any thread;
// `mutex_` guards the state. gRPC is called with it held, which is safe because StartRead,
// StartWrite and Finish only queue. Finish comes once nothing is in flight; OnDone, on another
// thread soon after, gives up gRPC's share in the object, while whoever still holds the lock has a
// share of its own.
class CompileStreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                                public std::enable_shared_from_this<CompileStreamCall> {
 public:
  // Started; gRPC takes it from here.
  static CompileStreamCall* Start(const RpcDependencies& parts, const Principal& principal,
                                  ByteBudget& unread, const grpc::CallbackServerContext& call);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { self_.reset(); }

 private:
  CompileStreamCall(const RpcDependencies& parts, ByteBudget& unread, CallContext context)
      : parts_(parts), unread_(unread), context_(std::move(context)) {}

  struct Waiting {
    uint64_t id;
    CompileAnswer answer;
    size_t bytes;
  };

  // Compiles without the lock: a hit answers before this returns.
  void Compile(const StreamMessage::Item& item);
  void Answer(uint64_t id, size_t request_bytes, CompileAnswer answer);
  // Does what can be done next.
  void Proceed() KILN_REQUIRES(mutex_);
  void ReadNext() KILN_REQUIRES(mutex_);
  void WriteNext() KILN_REQUIRES(mutex_);
  bool MayRead() const KILN_REQUIRES(mutex_);
  // INVALID_ARGUMENT after a message that could not be read.
  grpc::Status End() const KILN_REQUIRES(mutex_);

  const RpcDependencies& parts_;
  ByteBudget& unread_;
  CallContext context_;
  std::shared_ptr<CompileStreamCall> self_;  // gRPC's share

  Mutex mutex_;
  grpc::ByteBuffer request_ KILN_GUARDED_BY(mutex_);
  grpc::ByteBuffer response_ KILN_GUARDED_BY(mutex_);
  std::vector<RequestGate::Pass> writing_ KILN_GUARDED_BY(mutex_);  // of the answers being written
  std::deque<Waiting> unsent_ KILN_GUARDED_BY(mutex_);
  std::unordered_multiset<uint64_t> ids_ KILN_GUARDED_BY(mutex_);  // read, and not yet answered
  size_t in_flight_ KILN_GUARDED_BY(mutex_) = 0;                   // read, and not yet written
  size_t request_bytes_ KILN_GUARDED_BY(mutex_) = 0;
  size_t unsent_bytes_ KILN_GUARDED_BY(mutex_) = 0;
  bool takes_more_ KILN_GUARDED_BY(mutex_) = false;
  bool is_reading_ KILN_GUARDED_BY(mutex_) = false;
  bool is_starting_ KILN_GUARDED_BY(mutex_) = false;  // a message's requests, one after the other
  bool is_writing_ KILN_GUARDED_BY(mutex_) = false;
  bool was_read_to_end_ KILN_GUARDED_BY(mutex_) = false;
  bool is_unreadable_ KILN_GUARDED_BY(mutex_) = false;  // the last message
  bool is_broken_ KILN_GUARDED_BY(mutex_) = false;      // nobody will get another answer
  bool is_finished_ KILN_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln
