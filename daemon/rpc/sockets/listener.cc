#include "daemon/rpc/sockets/listener.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "storage/base/log.h"

namespace kiln {
namespace {

// Without a connection that ends, this often the backlog is tried again after descriptors ran out.
constexpr auto kRetryTime = std::chrono::milliseconds(100);
// Between two sockets' backlogs, and before connections that ended are looked at.
constexpr int kAcceptsAtOnce = 64;
constexpr char kLightFirstByte = 'k';  // of protos/kiln/v1/light.proto's preamble
// Checks take less than a hundredth of a processor: one of 1,000 connections takes 0.8 ms at most.
constexpr auto kCheckTimeEach = std::chrono::microseconds(100);
// Event data of the wake descriptor and of the listening sockets.
constexpr uint64_t kWake = 0;
constexpr uint64_t kSocket = UINT64_MAX;
constexpr auto kWarnAtMostEvery = std::chrono::seconds(10);

absl::StatusOr<uid_t> PeerOf(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return ErrnoStatus(errno, "SO_PEERCRED");
  }
  return credentials.uid;
}

// 0: `fd` is closed, or no socket. No other socket of its network namespace has or gets the same
// number, and since Linux 5.4 no other socket at all.
uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  return ::getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

bool IsOutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

ListenerLimits ListenerLimits::Within(uint64_t descriptors) {
  ListenerLimits fitting;
  const uint64_t kept = std::min<uint64_t>(descriptors / 2, limits::kDescriptorsKept);
  fitting.connections_max =
      static_cast<size_t>(std::min<uint64_t>(fitting.connections_max, descriptors - kept));
  // One user may hold as large a part of the connections as with the default limits.
  fitting.connections_per_principal_max =
      fitting.connections_max * limits::kConnectionsPerPrincipalMax / limits::kConnectionsMax;
  return fitting;
}

Listener::Listener(std::vector<Socket> sockets, ConnectionSink& sink, ConnectionSink* light,
                   const ListenerLimits& limits)
    : sockets_(std::move(sockets)), sink_(sink), light_(light), limits_(limits) {}

Listener::~Listener() { Stop(); }

absl::Status Listener::Start() {
  KILN_RETURN_IF_ERROR(OpenEvents());
  thread_ = std::thread([this] { Loop(); });
  return absl::OkStatus();
}

absl::Status Listener::OpenEvents() {
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool is_watched = epoll_ && wake_ && Control(EPOLL_CTL_ADD, wake_.get(), EPOLLIN, kWake);
  for (const Socket& socket : sockets_) {
    is_watched = is_watched && Control(EPOLL_CTL_ADD, socket.file.fd(), EPOLLIN, kSocket);
  }
  return is_watched ? absl::OkStatus() : ErrnoStatus(errno, "cannot start the listener");
}

bool Listener::Control(int operation, int fd, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

void Listener::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  thread_.join();
  sockets_.clear();
  // Nobody is going to serve these: their clients need not wait for the end of the process.
  for (const auto& [id, connection] : open_) {
    if (connection.undecided) ::shutdown(connection.number, SHUT_RDWR);
  }
}

void Listener::SetListening(bool is_listening) {
  if (is_listening == is_listening_) return;
  is_listening_ = is_listening;
  for (const Socket& socket : sockets_) {
    Control(EPOLL_CTL_MOD, socket.file.fd(), is_listening ? uint32_t{EPOLLIN} : 0, kSocket);
  }
}

void Listener::Loop() {
  std::array<epoll_event, 64> events;
  while (true) {
    std::chrono::milliseconds wait = limits_.silent_time / 16;
    if (!open_.empty()) wait = std::min(wait, limits_.check_time);
    if (!is_listening_) wait = kRetryTime;
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), events.size(), static_cast<int>(wait.count()));
    // Ends first: they make room.
    for (size_t i = 0; i < static_cast<size_t>(std::max(count, 0)); ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kWake) return;
      if (open_.count(id) == 0) continue;
      if (events[i].events == EPOLLIN) {
        Decide(id);
      } else {
        Forget(id);
      }
    }
    ForgetClosed();
    CloseSilent();
    SetListening(true);
    for (const Socket& socket : sockets_) {
      if (!AcceptFrom(socket)) {
        SetListening(false);
        break;
      }
    }
  }
}

bool Listener::AcceptFrom(const Socket& socket) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    if (UniqueFd connection = Accept(socket)) {
      is_starved_ = false;
      Take(std::move(connection), socket.is_admin);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (!IsOutOfDescriptors(errno)) return true;  // nothing more to accept
    // Tried again and again, and counted once.
    if (!std::exchange(is_starved_, true)) {
      Refuse({}, ErrnoStatus(errno, "connections wait until others end"));
    }
    return false;
  }
  return true;  // epoll reports the rest again
}

UniqueFd Listener::Accept(const Socket& socket) {
  return UniqueFd(::accept4(socket.file.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void Listener::Take(UniqueFd connection, bool is_admin) {
  const absl::StatusOr<uid_t> uid = PeerOf(connection.get());
  if (!uid.ok()) return Refuse({}, uid.status());
  const Principal principal{*uid, is_admin};
  if (IsOverLimit(principal)) {
    return Refuse(principal, ResourceExhausted("too many connections: {} in all, {} of this user",
                                               open_.size(), HeldBy(principal)));
  }
  const int number = connection.get();
  const uint64_t cookie = CookieOf(number);
  const uint64_t id = ++last_id_;
  // Before it is served: one whose end nobody notices would count for ever. EPOLLHUP comes always.
  if (cookie == 0 || !Control(EPOLL_CTL_ADD, number, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, id)) {
    return Refuse(principal, ErrnoStatus(errno, "cannot watch the connection"));
  }
  ++open_by_principal_[principal];
  open_.emplace(id, Connection{number, cookie, principal, std::move(connection)});
  open_count_.store(open_.size(), std::memory_order_relaxed);
  if (light_ == nullptr) Serve(id, sink_);
}

void Listener::ForgetClosed() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now - checked_at_ < kCheckTimeEach * open_.size()) return;
  checked_at_ = now;
  std::vector<uint64_t> closed;
  for (const auto& [id, connection] : open_) {
    if (CookieOf(connection.number) != connection.cookie) closed.push_back(id);
  }
  for (const uint64_t id : closed) Forget(id);
}

void Listener::CloseSilent() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now - looked_at_ < limits_.silent_time) return;
  looked_at_ = now;
  for (auto& [id, connection] : open_) {
    const bool is_old = std::exchange(connection.was_looked_at, true);
    // Loop hears of it.
    if (is_old && connection.undecided) ::shutdown(connection.number, SHUT_RDWR);
  }
  if (light_ != nullptr) light_->CloseSilent();
}

void Listener::Decide(uint64_t id) {
  char first = 0;
  const int number = open_.at(id).number;
  if (::recv(number, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1) return Forget(id);
  Serve(id, first == kLightFirstByte ? *light_ : sink_);
}

void Listener::Serve(uint64_t id, ConnectionSink& sink) {
  Connection& connection = open_.at(id);
  // Once: gRPC may keep the socket open a little longer than its client.
  Control(EPOLL_CTL_MOD, connection.number, EPOLLRDHUP | EPOLLONESHOT, id);
  const Principal principal = connection.principal;
  if (absl::Status served = sink.Serve(std::move(connection.undecided), principal); !served.ok()) {
    Forget(id);
    return Refuse(principal, served);
  }
  connection.sink = &sink;
}

size_t Listener::HeldBy(const Principal& principal) const {
  const auto held = open_by_principal_.find(principal);
  return held == open_by_principal_.end() ? 0 : held->second;
}

bool Listener::IsOverLimit(const Principal& principal) const {
  // An operator must get in when everybody else is in.
  const bool is_full = open_.size() >= limits_.connections_max && !principal.is_admin;
  return is_full || HeldBy(principal) >= limits_.connections_per_principal_max;
}

void Listener::Forget(uint64_t id) {
  const auto found = open_.find(id);
  const Principal principal = found->second.principal;
  ConnectionSink* const sink = found->second.sink;
  open_.erase(found);
  const auto held = open_by_principal_.find(principal);
  if (--held->second == 0) open_by_principal_.erase(held);
  open_count_.store(open_.size(), std::memory_order_relaxed);
  if (sink != nullptr) sink->OnClosed(principal);
}

void Listener::Refuse(const Principal& principal, const absl::Status& why) {
  requests_.Add();
  const uint64_t refused = refused_.Add();
  // A client that tries again and again must not fill the log.
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now - warned_at_ < kWarnAtMostEvery) return;
  warned_at_ = now;
  LogWarning("connection refused",
             {{"uid", principal.uid}, {"why", Message(why)}, {"refused", refused}});
}

}  // namespace kiln
