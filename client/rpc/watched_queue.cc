#include "client/rpc/watched_queue.h"

#include <algorithm>

namespace kiln {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

system_clock::time_point OnWallClock(steady_clock::time_point moment) {
  return system_clock::now() +
         std::chrono::duration_cast<system_clock::duration>(moment - steady_clock::now());
}

}  // namespace

WatchedQueue::~WatchedQueue() {
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

std::optional<WatchedQueue::Event> WatchedQueue::Next(
    std::optional<steady_clock::time_point> until) {
  Event event{};
  while (true) {
    steady_clock::time_point wake = steady_clock::now() + quiet_time_;
    if (until.has_value()) wake = std::min(wake, *until);
    switch (queue_.AsyncNext(&event.tag, &event.ok, OnWallClock(wake))) {
      case grpc::CompletionQueue::GOT_EVENT:
        return event;
      case grpc::CompletionQueue::SHUTDOWN:
        return std::nullopt;
      case grpc::CompletionQueue::TIMEOUT:
        break;
    }
    if (until.has_value() && steady_clock::now() >= *until) return std::nullopt;
    if (!is_wedged_ && !is_alive_(asking_time_)) {
      is_wedged_ = true;
      context_.TryCancel();  // its event ends the loop
    }
  }
}

}  // namespace kiln
