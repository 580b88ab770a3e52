#include "client/cli/session.h"

#include "client/rpc/admin_client.h"
#include "client/rpc/client.h"
#include "client/rpc/socket_path.h"

namespace kiln::cli {
namespace {

// A person waits rather than compiles: long enough for a restart, or for a machine that is short of
// everything.
constexpr auto kAnswerBudget = std::chrono::seconds(10);
constexpr auto kConnectBudget = std::chrono::seconds(2);
constexpr int kAttemptsMax = 16;
constexpr auto kBackoffMax = std::chrono::seconds(2);

}  // namespace

ConnectOptions Session::ServiceOptions() const {
  ConnectOptions connect;
  connect.socket_path = options_.socket;
  connect.root = options_.root;
  connect.server_uid = options_.server_uid;
  connect.connect_budget = kConnectBudget;
  connect.answer_budget = kAnswerBudget;
  connect.retry.attempts_max = kAttemptsMax;
  connect.retry.backoff_max = kBackoffMax;
  return connect;
}

ConnectOptions Session::AdminOptions() const {
  ConnectOptions connect = ServiceOptions();
  if (!connect.socket_path.empty()) {
    connect.socket_path = BesideSocket(connect.socket_path, kAdminSocket);
  }
  return connect;
}

absl::StatusOr<std::unique_ptr<Client>> Session::Connect() const {
  return Client::Connect(ServiceOptions());
}

absl::StatusOr<std::unique_ptr<AdminClient>> Session::ConnectAdmin() const {
  return AdminClient::Connect(AdminOptions());
}

CallOptions Session::Call(std::optional<std::chrono::milliseconds> fallback) const {
  CallOptions call;
  std::optional<std::chrono::duration<double>> timeout = fallback;
  if (options_.timeout_seconds.has_value()) {
    timeout = std::chrono::duration<double>(*options_.timeout_seconds);
  }
  if (timeout.has_value()) {
    call.deadline = std::chrono::steady_clock::now() +
                    std::chrono::duration_cast<std::chrono::steady_clock::duration>(*timeout);
  }
  return call;
}

}  // namespace kiln::cli
