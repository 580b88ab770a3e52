// A completion queue for one call that notices a daemon which stopped answering.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <chrono>
#include <functional>
#include <optional>

namespace kiln {

// A daemon that is stopped, deadlocked or starved looks like a daemon that compiles. When the queue
// is quiet for a while, it calls `is_alive`, which asks over the same connection. If that returns
// false, the queue cancels the call and IsWedged() holds. One thread uses it; it starts none.
class WatchedQueue {
 public:
  struct Event {
    void* tag;
    bool ok;
  };

  // A third of `budget` passes before the daemon is asked; `is_alive` is given the rest.
  WatchedQueue(grpc::ClientContext& context, std::chrono::milliseconds budget,
               std::function<bool(std::chrono::milliseconds budget)> is_alive)
      : context_(context),
        quiet_time_(budget / 3),
        asking_time_(budget - quiet_time_),
        is_alive_(std::move(is_alive)) {}
  // Waits for what is still under way; the caller has cancelled or finished it.
  ~WatchedQueue();
  WatchedQueue(const WatchedQueue&) = delete;
  WatchedQueue& operator=(const WatchedQueue&) = delete;

  grpc::CompletionQueue* queue() { return &queue_; }

  // The next event, or nothing once `until` has passed.
  std::optional<Event> Next(
      std::optional<std::chrono::steady_clock::time_point> until = std::nullopt);

  bool IsWedged() const { return is_wedged_; }

 private:
  grpc::ClientContext& context_;
  const std::chrono::milliseconds quiet_time_;
  const std::chrono::milliseconds asking_time_;
  const std::function<bool(std::chrono::milliseconds)> is_alive_;
  grpc::CompletionQueue queue_;
  bool is_wedged_ = false;
};

}  // namespace kiln
