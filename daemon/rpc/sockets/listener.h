// Accepts connections and finds out whose they are.
//
// Our own, because gRPC's listener knows no peer on a Unix socket and never accepts again after the
// process once ran out of descriptors (CVE-2023-4785).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <unordered_map>
#include <vector>

#include "daemon/rpc/sockets/connection_sink.h"
#include "daemon/rpc/sockets/socket_file.h"
#include "storage/base/limits.h"
#include "storage/base/metrics.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln {

struct ListenerLimits {
  size_t connections_max = limits::kConnectionsMax;
  size_t connections_per_principal_max = limits::kConnectionsPerPrincipalMax;
  // Connections on which nothing happens for once to twice this time end.
  std::chrono::milliseconds silent_time = limits::kSilentTime;
  // Where nothing else happens, connections whose end was not reported are looked for this often.
  std::chrono::milliseconds check_time = std::chrono::seconds(1);

  // The limits for a process with so many descriptors: kDescriptorsKept of them, or half where
  // there are few, stay free for compiles, the store and operators.
  static ListenerLimits Within(uint64_t descriptors);
};

// One thread waits for connections on all sockets, for the first byte of those that may speak
// either protocol, and for the end of those there are. A connection that says nothing counts like
// any other.
//
// It counts them by itself, since gRPC owns the descriptors and does not say when it closes one.
// The listener waits for the hang-up on the sink's own descriptor, so a connection takes one. epoll
// reports nothing where the sink closes first. So the listener also looks, whenever it wakes,
// whether each number still is that of its socket.
//
// Past a limit a connection is accepted and closed at once. When descriptors run out, connections
// stay in the backlog until one ends.
class Listener {
 public:
  struct Socket {
    SocketFile file;
    bool is_admin = false;
  };

  // The sinks outlive it. `light`: gets the connections whose first byte is that of the light
  // protocol. Null: `sink` gets all, at once.
  Listener(std::vector<Socket> sockets, ConnectionSink& sink, ConnectionSink* light = nullptr,
           const ListenerLimits& limits = {});
  ~Listener();

  // Accepts from now on. Call once.
  absl::Status Start();
  // Accepts no more, closes the sockets and removes their names. Idempotent; blocks until the
  // thread has ended.
  void Stop();

  size_t connections() const { return open_count_.load(std::memory_order_relaxed); }
  // Connections, and times that descriptors ran out. They count as requests.
  uint64_t refused() const { return refused_.value(); }

 private:
  struct Connection {
    int number;       // of its descriptor, which is the sink's after Serve
    uint64_t cookie;  // of its socket
    Principal principal;
    UniqueFd undecided;              // until its first byte is here
    bool was_looked_at = false;      // when CloseSilent last looked
    ConnectionSink* sink = nullptr;  // afterwards
  };

  absl::Status OpenEvents();
  void Loop();
  // False: no further one can be accepted now.
  bool AcceptFrom(const Socket& socket);
  // Nothing where none waits or descriptors ran out; errno says which.
  UniqueFd Accept(const Socket& socket);
  void Take(UniqueFd connection, bool is_admin);
  bool IsOverLimit(const Principal& principal) const;
  size_t HeldBy(const Principal& principal) const;
  // epoll_ctl. Events bring `id`.
  bool Control(int operation, int fd, uint32_t events, uint64_t id);
  // Closes connections that have said nothing, and the silent ones of `light_`.
  void CloseSilent();
  // Forgets connections whose sink has closed them. Looks at most once in kCheckTimeEach for each.
  void ForgetClosed();
  // By the first byte, which is here.
  void Decide(uint64_t id);
  void Serve(uint64_t id, ConnectionSink& sink);
  void Forget(uint64_t id);
  // Waits on the listening sockets, or leaves their connections in the backlog.
  void SetListening(bool is_listening);
  void Refuse(const Principal& principal, const absl::Status& why);

  std::vector<Socket> sockets_;
  ConnectionSink& sink_;
  ConnectionSink* const light_;
  const ListenerLimits limits_;
  UniqueFd epoll_;
  UniqueFd wake_;
  // The thread's own.
  bool is_listening_ = true;
  bool is_starved_ = false;  // of descriptors
  uint64_t last_id_ = 0;     // of a connection
  std::unordered_map<uint64_t, Connection> open_;
  std::map<Principal, size_t> open_by_principal_;
  SteadyTime looked_at_ = std::chrono::steady_clock::now();  // by CloseSilent
  SteadyTime checked_at_{};                                  // by ForgetClosed
  SteadyTime warned_at_{};

  std::atomic<size_t> open_count_{0};
  Counter requests_{"requests", ""};
  Counter refused_{"rejected", ""};
  Gauge connections_gauge_{"connections", "Connections open now.",
                           [this] { return connections(); }};
  std::thread thread_;
};

}  // namespace kiln
