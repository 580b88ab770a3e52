// One connection that speaks the light protocol (protos/kiln/v1/light.proto).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "daemon/rpc/kernel_calls.h"
#include "daemon/rpc/light/frame_reader.h"
#include "daemon/rpc/light/light_user.h"
#include "daemon/rpc/reply_bytes.h"
#include "daemon/rpc/request_gate.h"
#include "daemon/rpc/rpc_dependencies.h"
#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/mutex.h"
#include "storage/base/unique_fd.h"

namespace kiln {

// Waits for its socket in the user's epoll with EPOLLONESHOT, so one thread at a time reads. Hits
// are written together when that thread's turn ends, other answers by whoever has them. Reads no
// more while too many requests are in flight or the client leaves too many answers unread. A
// request is in flight until its answer is written.
//
// Thread-safe. Nothing blocks but what KernelService's methods do on gRPC's threads. Lives as long
// as a call of it.
class LightConnection : public std::enable_shared_from_this<LightConnection> {
 public:
  // `number`: what events of this connection say. Parts and calls outlive it. Each call has a pass
  // of `calls`.
  LightConnection(UniqueFd socket, const Principal& principal, const RpcDependencies& parts,
                  RequestGate& calls, std::shared_ptr<LightUser> user, uint64_t number);

  // Waits for the socket from now on. Call once.
  absl::Status Start();
  // What epoll reports. Starts a few requests at most. False: the connection has ended.
  bool OnEvents(uint32_t events);
  // Closes a connection that neither moved a byte nor had work under way since the last call.
  // True: closed.
  bool CloseIfSilent();
  // Cancels what is in flight and shuts the socket down. Idempotent.
  void Close();

 private:
  // What a call holds until it is answered.
  struct Call {
    uint64_t id = 0;
    CallContext context;
    RequestGate::Pass pass;
    ByteBudget::Share share;  // of the request
  };
  using CallPtr = std::shared_ptr<const Call>;
  struct Unsent {
    ReplyPieces pieces;
    CallPtr call;
    RequestGate::Pass compile;  // until the answer is written
    ByteBudget::Share share;
    size_t piece = 0;          // the first that is not written
    size_t written_bytes = 0;  // of that piece
  };

  // False: the client does not keep to the protocol, or is gone.
  bool Read();
  bool StartRequests();
  bool StartRequest(LightFrame frame);
  void Dispatch(CallPtr call, uint8_t method, std::string_view body);
  void Compile(const CallPtr& call, std::string_view body);
  void Fetch(const CallPtr& call, std::string_view body);
  template <class Request, class Response>
  void Run(const CallPtr& call, std::string_view body, KernelMethod<Request, Response> method);
  void Cancel(uint64_t id);

  void Send(const CallPtr& call, CompileReply reply, RequestGate::Pass compile = nullptr);
  // For the reading thread, which writes all of its turn's answers when the turn ends.
  void Queue(const CallPtr& call, CompileReply reply, RequestGate::Pass compile);
  void Write() KILN_REQUIRES(mutex_);
  void OnWritten(size_t bytes) KILN_REQUIRES(mutex_);
  void Arm() KILN_REQUIRES(mutex_);
  bool MayStart() const KILN_REQUIRES(mutex_);

  const UniqueFd socket_;
  const Principal principal_;
  const RpcDependencies& parts_;
  RequestGate& gate_;
  const std::shared_ptr<LightUser> user_;
  const uint64_t number_;
  // The reading thread's own.
  ByteBudget::Share share_;  // of the request that is being read
  LightFrameReader reader_;

  Mutex mutex_;
  std::unordered_map<uint64_t, CallPtr> calls_ KILN_GUARDED_BY(mutex_);  // in flight
  std::deque<Unsent> unsent_ KILN_GUARDED_BY(mutex_);
  size_t unsent_bytes_ KILN_GUARDED_BY(mutex_) = 0;
  bool is_reading_ KILN_GUARDED_BY(mutex_) = false;  // then the reading thread arms
  bool has_more_ KILN_GUARDED_BY(mutex_) = false;    // requests may be read and not started
  bool has_moved_ KILN_GUARDED_BY(mutex_) = true;    // since CloseIfSilent
  bool is_closed_ KILN_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln
