// What every subcommand gets: the global options, the console, and connections made by them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/output/console.h"
#include "storage/base/status.h"

namespace kiln {
class AdminClient;
class Client;
struct CallOptions;
struct ConnectOptions;
}  // namespace kiln

namespace kiln::cli {

// The exit status of the command.
enum ExitCode : int {
  kOk = 0,
  // Some of the work failed.
  kFailed = 1,
  // The command could not run: wrong usage, no daemon.
  kCouldNotRun = 2,
};

struct GlobalOptions {
  std::string root;
  std::string socket;
  std::optional<uid_t> server_uid;
  std::optional<double> timeout_seconds;
  bool json = false;
  bool no_color = false;
  bool table = false;
};

class Session {
 public:
  Session(const GlobalOptions& options, Console& console) : options_(options), console_(console) {}

  Console& console() { return console_; }
  bool json() const { return options_.json; }
  // That the caller has named, by --root or $KILN_ROOT; "": none.
  std::string root() const;

  // Errors say that the daemon cannot be reached (errors.h).
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Client>> Connect() const;
  [[nodiscard]] absl::StatusOr<std::unique_ptr<AdminClient>> ConnectAdmin() const;
  // Where the administration socket refuses the caller or is not there: to the caller's own view,
  // and says so, unless the caller names the user who is asked about.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<AdminClient>> ConnectAdminOrOwn(
      bool names_user = false) const;

  // Prints both versions where kilnd is of another one than kiln, which may be why it answers less.
  void TellOtherVersion(AdminClient& admin);

  // Until --timeout from now; without it until `fallback` from now, or without end.
  CallOptions Call(std::optional<std::chrono::milliseconds> fallback = std::nullopt) const;

 private:
  // The options, as libkiln takes them.
  ConnectOptions Options(std::string socket_path) const;
  // Why there is no connection, for the caller.
  absl::Status Explain(const absl::Status& status) const;
  // Replaces `status` by a better reason if this machine shows one. FAILED_PRECONDITION: a kilnd
  // runs but does not accept connections.
  absl::Status FindReason(const absl::Status& status) const;

  const GlobalOptions& options_;
  Console& console_;
};

// How long questions about the daemon's state may take.
inline constexpr auto kQuestionTime = std::chrono::seconds(30);

// What a subcommand does. errors.h says how failures are told.
using Command = std::function<absl::StatusOr<ExitCode>(Session&)>;

}  // namespace kiln::cli
