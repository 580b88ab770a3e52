// Serves the light protocol (protos/kiln/v1/light.proto).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "daemon/rpc/light/light_connection.h"
#include "daemon/rpc/sockets/connection_sink.h"

namespace kiln {

// A few threads wait for all connections together, read requests and answer hits; everything that
// waits or reads much goes elsewhere, as with gRPC. Thread-safe. Parts outlive it.
class LightServer final : public ConnectionSink {
 public:
  explicit LightServer(const RpcDependencies& parts);
  // Shuts down, at once.
  ~LightServer() override;

  absl::Status Start();
  // UNAVAILABLE after Shutdown.
  absl::Status Serve(UniqueFd connection, const Principal& principal) override;
  void OnClosed(const Principal&) override {}

  // Calls under way have until `deadline`, then they are cancelled and all connections end.
  // Idempotent; blocks until all have ended.
  void Shutdown(SteadyTime deadline);

 private:
  using ConnectionPtr = std::shared_ptr<LightConnection>;

  void Loop();
  ConnectionPtr Find(uint64_t number);
  std::shared_ptr<RequestBudget> BudgetOf(uid_t uid) KILN_REQUIRES(mutex_);

  const RpcDependencies& parts_;
  RequestGate calls_;
  UniqueFd epoll_;
  UniqueFd stop_;
  std::vector<std::thread> threads_;

  Mutex mutex_;
  uint64_t last_number_ KILN_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, ConnectionPtr> open_ KILN_GUARDED_BY(mutex_);
  std::map<uid_t, std::weak_ptr<RequestBudget>> budgets_ KILN_GUARDED_BY(mutex_);
  bool is_shut_down_ KILN_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln
