#include "daemon/rpc/light/light_connection.h"

#include <endian.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "daemon/rpc/status.h"
#include "kiln/v1/light.pb.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr size_t kReadBytes = 64 * limits::kKiB;
constexpr size_t kPiecesAtOnce = 32;

std::string AnswerHeader(uint64_t id, uint8_t code, const ReplyPieces& body) {
  const size_t length = sizeof id + sizeof code + SizeOf(body);
  const uint32_t wire_length = htole32(static_cast<uint32_t>(length));
  const uint64_t wire_id = htole64(id);
  std::string header(reinterpret_cast<const char*>(&wire_length), sizeof wire_length);
  header.append(reinterpret_cast<const char*>(&wire_id), sizeof wire_id);
  header.push_back(static_cast<char>(code));
  return header;
}

}  // namespace

LightConnection::LightConnection(UniqueFd socket, const Principal& principal,
                                 const RpcDependencies& parts, RequestGate& calls,
                                 std::shared_ptr<LightUser> user, uint64_t number)
    : socket_(std::move(socket)),
      principal_(principal),
      parts_(parts),
      gate_(calls),
      user_(std::move(user)),
      number_(number),
      reader_([this](size_t frame_bytes) {
        KILN_ASSIGN_OR_RETURN(share_, user_->requests->Take(frame_bytes));
        return absl::OkStatus();
      }) {}

absl::Status LightConnection::Start() {
  constexpr uint32_t kEvents = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
  if (Watch(user_->epoll, EPOLL_CTL_ADD, socket_, kEvents, number_)) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot watch the connection");
}

bool LightConnection::OnEvents(uint32_t events) {
  bool is_open = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0;
  if (is_open) {
    {
      MutexLock lock(mutex_);
      // An answer armed the socket between this event and another one. The thread that reads arms
      // it again, and what it misses is reported then.
      if (is_reading_) return true;
      is_reading_ = has_moved_ = true;
      Write();
    }
    is_open = Read();
    MutexLock lock(mutex_);
    is_reading_ = false;
    if (!is_closed_) Write();
    if (is_open && !is_closed_) Arm();
  }
  if (!is_open) Close();
  return is_open;
}

bool LightConnection::Read() {
  if (!StartRequests()) return false;  // those that came with earlier ones
  {
    MutexLock lock(mutex_);
    if (has_more_) return true;
  }
  std::array<char, kReadBytes> bytes;
  const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  reader_.Append({bytes.data(), static_cast<size_t>(count)});
  return StartRequests();
}

bool LightConnection::StartRequests() {
  for (int started = 0;; ++started) {
    {
      MutexLock lock(mutex_);
      has_more_ = started == limits::kLightRequestsPerTurn || !MayStart();
      if (has_more_) return !is_closed_;
    }
    absl::StatusOr<std::optional<LightFrame>> next = reader_.Next();
    if (!next.ok()) return false;
    if (!*next) return true;
    if (!StartRequest(**std::move(next))) return false;
  }
}

bool LightConnection::StartRequest(LightFrame frame) {
  if (frame.method == v1::LIGHT_METHOD_CANCEL) {
    share_.reset();
    Cancel(frame.id);
    return true;
  }
  absl::StatusOr<RequestGate::Pass> pass = gate_.Enter();
  auto call = std::make_shared<Call>();
  call->id = frame.id;
  call->context.principal = principal_;
  if (frame.timeout_ms > 0) {
    call->context.deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(frame.timeout_ms);
  }
  call->share = std::exchange(share_, nullptr);
  if (pass.ok()) call->pass = *pass;
  {
    MutexLock lock(mutex_);
    if (is_closed_ || !calls_.emplace(frame.id, call).second) return false;
  }
  if (!frame.body.ok()) {
    Send(call, ToRpcStatus(frame.body.status()));
  } else if (!pass.ok()) {
    Send(call, ToRpcStatus(pass.status()));
  } else {
    Dispatch(std::move(call), frame.method, *frame.body);
  }
  return true;
}

void LightConnection::Dispatch(CallPtr call, uint8_t method, std::string_view body) {
  switch (method) {
    case v1::LIGHT_METHOD_COMPILE:
      return Compile(call, body);
    case v1::LIGHT_METHOD_LOOKUP:
      return Run(call, body, Lookup);
    case v1::LIGHT_METHOD_NEAREST:
      return Run(call, body, Nearest);
    case v1::LIGHT_METHOD_FETCH:
      return Fetch(call, body);
    case v1::LIGHT_METHOD_LIST_TOOLCHAINS:
      return Run(call, body, ListToolchains);
    case v1::LIGHT_METHOD_GET_OWN:
      return Run(call, body, GetOwn);
    case v1::LIGHT_METHOD_PUT_OWN:
      return Run(call, body, PutOwn);
    case v1::LIGHT_METHOD_NOTE_USES:
      return Run(call, body, NoteUses);
    default:
      const auto why = absl::UnimplementedError(fmt::format("there is no method {}", method));
      return Send(call, ToRpcStatus(why));
  }
}

void LightConnection::Compile(const CallPtr& call, std::string_view body) {
  const Prepared request = Prepare(parts_, body);
  if (const auto found = FindAnswer(parts_, call->context, request)) {
    return Queue(call, SerializeAnswer(*found), found->pass);
  }
  StartCompile(parts_, call->context, request,
               [self = shared_from_this(), call](const CompileAnswer& answer) {
                 self->Send(call, SerializeAnswer(answer), answer.pass);
               });
}

void LightConnection::Fetch(const CallPtr& call, std::string_view body) {
  v1::FetchRequest request;
  if (const absl::Status parsed = Parse(body, request); !parsed.ok()) {
    return Send(call, ToRpcStatus(parsed));
  }
  kiln::Fetch(parts_, call->context, request,
              [self = shared_from_this(), call](absl::StatusOr<Blob> found) {
                if (!found.ok()) return self->Send(call, ToRpcStatus(found.status()));
                self->Send(call, SerializeChunk(*found));
              });
}

template <class Request, class Response>
void LightConnection::Run(const CallPtr& call, std::string_view body,
                          KernelMethod<Request, Response> method) {
  struct Messages {
    Request request;
    Response response;
  };
  auto messages = std::make_shared<Messages>();
  if (const absl::Status parsed = Parse(body, messages->request); !parsed.ok()) {
    return Send(call, ToRpcStatus(parsed));
  }
  method(parts_, call->context, messages->request, messages->response,
         [self = shared_from_this(), call, messages](const absl::Status& status) {
           if (!status.ok()) return self->Send(call, ToRpcStatus(status));
           self->Send(call, ReplyPieces{messages->response.SerializeAsString()});
         });
}

void LightConnection::Cancel(uint64_t id) {
  CallPtr call;
  {
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    call = found->second;
  }
  // Without the lock: the answer may come on this thread.
  Cancellation(call->context.cancellation).Cancel();
}

void LightConnection::Send(const CallPtr& call, CompileReply reply, RequestGate::Pass compile) {
  Queue(call, std::move(reply), std::move(compile));
  MutexLock lock(mutex_);
  if (is_closed_) return;
  Write();
  if (!is_reading_) Arm();
}

void LightConnection::Queue(const CallPtr& call, CompileReply reply, RequestGate::Pass compile) {
  ByteBudget::Share share;
  if (const auto* pieces = std::get_if<ReplyPieces>(&reply)) {
    absl::StatusOr<ByteBudget::Share> taken = user_->answers->Take(SizeOf(*pieces));
    if (taken.ok()) {
      share = *std::move(taken);
    } else {
      reply = ToRpcStatus(taken.status());
    }
  }
  uint8_t code = 0;
  ReplyPieces body;
  if (const auto* error = std::get_if<v1::RpcStatus>(&reply)) {
    code = static_cast<uint8_t>(error->code());
    body = {error->SerializeAsString()};  // too small to count
  } else {
    body = std::get<ReplyPieces>(std::move(reply));
  }
  body.insert(body.begin(), AnswerHeader(call->id, code, body));
  MutexLock lock(mutex_);
  if (is_closed_) return;
  has_moved_ = true;
  unsent_bytes_ += SizeOf(body);
  unsent_.push_back({std::move(body), call, std::move(compile), std::move(share)});
}

void LightConnection::Write() {
  while (!unsent_.empty()) {
    std::array<iovec, kPiecesAtOnce> parts;
    size_t count = 0;
    for (const Unsent& answer : unsent_) {
      for (size_t i = answer.piece; i < answer.pieces.size() && count < parts.size(); ++i) {
        std::string_view bytes = BytesOf(answer.pieces[i]);
        if (count == 0) bytes.remove_prefix(answer.written_bytes);
        parts[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
      }
      if (count == parts.size()) break;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    // Where the client is gone, epoll says so.
    if (sent < 0) return;
    OnWritten(static_cast<size_t>(sent));
  }
}

void LightConnection::OnWritten(size_t bytes) {
  unsent_bytes_ -= bytes;
  while (!unsent_.empty()) {
    Unsent& answer = unsent_.front();
    const size_t left = BytesOf(answer.pieces[answer.piece]).size() - answer.written_bytes;
    if (bytes < left) {
      answer.written_bytes += bytes;
      return;
    }
    bytes -= left;
    answer.written_bytes = 0;
    if (++answer.piece < answer.pieces.size()) continue;
    calls_.erase(answer.call->id);
    unsent_.pop_front();
  }
}

void LightConnection::Arm() {
  uint32_t events = EPOLLRDHUP | EPOLLONESHOT;
  // Whatever can be written calls the reading thread: for the rest of an answer, or to start what
  // was read already.
  if (!unsent_.empty() || (has_more_ && MayStart())) events |= EPOLLOUT;
  if (!has_more_ && MayStart()) events |= EPOLLIN;
  Watch(user_->epoll, EPOLL_CTL_MOD, socket_, events, number_);
}

bool LightConnection::MayStart() const {
  return !is_closed_ && calls_.size() < limits::kStreamInFlightMax &&
         unsent_bytes_ <= limits::kStreamUnsentBytesMax;
}

bool LightConnection::CloseIfSilent() {
  {
    MutexLock lock(mutex_);
    const bool is_working = is_reading_ || calls_.size() > unsent_.size();
    if (std::exchange(has_moved_, false) || is_working) return false;
  }
  Close();
  return true;
}

void LightConnection::Close() {
  std::unordered_map<uint64_t, CallPtr> calls;
  {
    MutexLock lock(mutex_);
    if (std::exchange(is_closed_, true)) return;
    calls.swap(calls_);
    unsent_.clear();
    // The listener waits for the hang-up. The descriptor is closed with the last call.
    ::epoll_ctl(user_->epoll.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  // Without the lock: answers come on this thread.
  for (const auto& [id, call] : calls) Cancellation(call->context.cancellation).Cancel();
}

}  // namespace kiln
