#include "client/cli/commands/session.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include "client/cli/commands/errors.h"
#include "client/cli/output/format.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/client.h"
#include "client/rpc/dial.h"
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
// socket; 0: there is none.
pid_t KilndWithoutSocket(const std::string& socket_path) {
  std::ifstream file(InSocketFolder(socket_path, "pid"));
  pid_t process = 0;
  if (!(file >> process) || process <= 0) return 0;
  std::ifstream comm(fmt::format("/proc/{}/comm", process));
  std::string name;
  return std::getline(comm, name) && name == "kilnd" ? process : 0;
}

}  // namespace

absl::Status Session::FindReason(const absl::Status& status) const {
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
  if (!options_.socket.empty()) {
    const auto client = Client::Connect(Options(options_.socket));
    if (!client.ok()) return client.status();
  }
  return status;
}

absl::Status Session::Explain(const absl::Status& status) const {
  const absl::Status reason = FindReason(status);
  return CannotRun(About("cannot reach the daemon", reason), AdviceOnConnecting(reason, root()));
}

std::string Session::root() const {
  if (!options_.socket.empty() || !options_.root.empty()) return options_.root;
  const char* const variable = std::getenv("KILN_ROOT");
  return variable == nullptr ? "" : variable;
}

ConnectOptions Session::Options(std::string socket_path) const {
  ConnectOptions connect;
  connect.socket_path = std::move(socket_path);
  connect.root = options_.root;
  connect.server_uid = options_.server_uid;
  connect.connect_budget = kConnectBudget;
  connect.answer_budget = kAnswerBudget;
  connect.retry.attempts_max = kAttemptsMax;
  connect.retry.backoff_max = kBackoffMax;
  connect.needs_daemon = true;
  return connect;
}

absl::StatusOr<std::unique_ptr<Client>> Session::Connect() const {
  auto client = Client::Connect(Options(options_.socket));
  if (!client.ok()) return Explain(client.status());
  return client;
}

absl::StatusOr<std::unique_ptr<AdminClient>> Session::ConnectAdmin() const {
  auto client = AdminClient::Connect(
      Options(options_.socket.empty() ? "" : InSocketFolder(options_.socket, kAdminSocket)));
  if (!client.ok()) return Explain(client.status());
  return client;
}

absl::StatusOr<std::unique_ptr<AdminClient>> Session::ConnectAdminOrOwn(bool names_user) const {
  auto admin = ConnectAdmin();
  if (admin.ok() || IsWedgedStatus(admin.status())) return admin;
  auto own = AdminClient::ConnectOwn(Options(options_.socket));
  if (!own.ok()) {
    // Not being an operator is beside the point where the daemon is not trusted.
    return UntrustedServer(own.status()) ? Explain(own.status()) : admin.status();
  }
  if (!names_user) {
    console_.err << "kiln: your own jobs only: the administration socket is for operators\n";
  }
  return own;
}

void Session::TellOtherVersion(AdminClient& admin) {
  const auto stats = admin.GetStats(Call(kQuestionTime));
  if (!stats.ok() || stats->version() == KILN_VERSION) return;
  console_.err << fmt::format("kiln: kilnd is {}, and this is kiln {}: that may be why\n",
                              Printable(stats->version()), KILN_VERSION);
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
