// A service stub over a verified descriptor, replaced when its connection breaks.
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "client/rpc/dial.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// A channel over one verified connection. gRPC cannot make a connection again that it did not make
// itself, so when it breaks the channel fails every call with UNAVAILABLE from then on.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const DialOptions& options);

// Thread-safe. Get blocks for at most the dial budget.
template <typename Service>
class ReconnectingStub {
 public:
  using Stub = typename Service::Stub;

  explicit ReconnectingStub(DialOptions options) : options_(std::move(options)) {}

  // The present stub, or a new one where there is none. Errors as in Dial.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Stub>> Get() {
    const MutexLock lock(mutex_);
    if (stub_ == nullptr) {
      KILN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, OpenChannel(options_));
      stub_ = Service::NewStub(channel);
    }
    return stub_;
  }

  // `broken` failed with UNAVAILABLE; others may have noticed first and replaced it already.
  void Drop(const std::shared_ptr<Stub>& broken) {
    const MutexLock lock(mutex_);
    if (stub_ == broken) stub_ = nullptr;
  }

 private:
  const DialOptions options_;
  Mutex mutex_;
  std::shared_ptr<Stub> stub_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
