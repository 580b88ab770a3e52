#include "client/cli/commands/session.h"

#include <filesystem>
#include <fstream>

#include "client/rpc/admin_client.h"
#include "client/rpc/client.h"
#include "client/rpc/retry.h"
#include "client/rpc/socket_path.h"

namespace kiln::cli {
namespace {

// A person can wait for a restart of the daemon, or on an overloaded machine.
constexpr auto kAnswerBudget = std::chrono::seconds(10);
constexpr auto kConnectBudget = std::chrono::seconds(2);
constexpr int kAttemptsMax = 16;
constexpr auto kBackoffMax = std::chrono::seconds(2);

// The process id of a kilnd that holds the lock of its run directory and does not answer on its
// socket; 0: there is none. Does not try the lock: a kilnd that starts just then would fail.
pid_t KilndWithoutSocket(const std::string& socket_path) {
  std::ifstream lock(BesideSocket(socket_path, "lock"));
  pid_t process = 0;
  if (!(lock >> process) || process <= 0) return 0;
  std::ifstream comm(fmt::format("/proc/{}/comm", process));
  std::string name;
  return std::getline(comm, name) && name == "kilnd" ? process : 0;
}

}  // namespace

absl::Status Session::Explain(const absl::Status& status) const {
  if (!absl::IsUnavailable(status) || IsWedgedStatus(status)) return status;
  const auto path =
      FindSocket(options_.socket, options_.root, kServiceSocket, SocketSurroundings::OfProcess());
  if (!path.ok()) return status;
  if (const pid_t process = KilndWithoutSocket(*path); process != 0) {
    return FailedPrecondition(
        "kilnd, process {}, is not accepting connections on {}: it is starting or shutting down; "
        "ask again when its log says `serving`",
        process, *path);
  }
  // The message names the socket that the user gave, not the administration socket beside it.
  if (!options_.socket.empty() && !SocketSurroundings::OfProcess().exists(*path)) {
    return Unavailable("no daemon: there is no socket at {}", *path);
  }
  std::error_code error;
  if (!options_.socket.empty() && std::filesystem::is_directory(*path, error)) {
    return Unavailable("{} is a directory, not a daemon's socket", *path);
  }
  return status;
}

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
  auto client = Client::Connect(ServiceOptions());
  if (!client.ok()) return Explain(client.status());
  return client;
}

absl::StatusOr<std::unique_ptr<AdminClient>> Session::ConnectAdmin() const {
  auto client = AdminClient::Connect(AdminOptions());
  if (!client.ok()) return Explain(client.status());
  return client;
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
