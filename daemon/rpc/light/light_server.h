// Serves the light protocol (protos/kiln/v1/light.proto).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "daemon/rpc/light/light_connection.h"
#include "daemon/rpc/sockets/connection_sink.h"
#include "storage/base/limits.h"

namespace kiln {

// A few threads wait for all connections together, read requests and answer hits; everything that
// waits or reads much goes elsewhere, as with gRPC. Users take turns, and so do the connections of
// a user: the kernel keeps both orders, in an epoll of the users' epolls. Thread-safe. Parts
// outlive it.
class LightServer final : public ConnectionSink {
 public:
  explicit LightServer(const RpcDependencies& parts) : parts_(parts) {}
  // Shuts down, at once.
  ~LightServer() override;

  absl::Status Start();
  // UNAVAILABLE after Shutdown.
  absl::Status Serve(UniqueFd connection, const Principal& principal) override;
  void OnClosed(const Principal&) override {}
  void CloseSilent() override;

  // Calls under way have until `deadline`, then they are cancelled and all connections end.
  // Idempotent; blocks until all have ended.
  void Shutdown(SteadyTime deadline);

 private:
  using ConnectionPtr = std::shared_ptr<LightConnection>;

  void Loop();
  void TakeTurn(uid_t uid);
  absl::StatusOr<std::shared_ptr<LightUser>> UserOf(uid_t uid) KILN_REQUIRES(mutex_);

  const RpcDependencies& parts_;
  RequestGate calls_;
  const std::shared_ptr<SharedBytes> requests_{new SharedBytes{limits::kLightRequestBytesMax}};
  UniqueFd epoll_;
  UniqueFd stop_;
  std::vector<std::thread> threads_;

  Mutex mutex_;
  uint64_t last_number_ KILN_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, ConnectionPtr> open_ KILN_GUARDED_BY(mutex_);
  std::map<uid_t, std::weak_ptr<LightUser>> users_ KILN_GUARDED_BY(mutex_);
  bool is_shut_down_ KILN_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln
