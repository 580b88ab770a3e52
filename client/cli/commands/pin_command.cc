#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

struct PinArguments {
  std::vector<std::string> keys;
  bool unpin = false;
};

absl::StatusOr<Digest> Pin(AdminClient& admin, const std::string& text, bool pinned,
                           const CallOptions& call) {
  KILN_ASSIGN_OR_RETURN(const Digest key, ResolveKey(admin, text, call));
  admin::v1::PinRequest request;
  request.set_key(std::string(key.Bytes()));
  request.set_pinned(pinned);
  KILN_RETURN_IF_ERROR(admin.Pin(call, request).status());
  return key;
}

absl::StatusOr<ExitCode> RunPin(const PinArguments& arguments, Session& session) {
  Console& console = session.console();
  for (const std::string& text : arguments.keys) {
    KILN_RETURN_IF_ERROR(CannotRun(CheckKey(text)));
  }
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  ExitCode code = kOk;
  for (const std::string& text : arguments.keys) {
    const auto key = Pin(*admin, text, !arguments.unpin, session.Call(kQuestionTime));
    if (!key.ok()) {
      code = std::max(code, Fail(console, text, key.status()));
    } else if (session.json()) {
      console.out << Dump(Json{{"key", key->Hex()}, {"pinned", !arguments.unpin}}) << std::endl;
    } else {
      console.out << (arguments.unpin ? "released " : "pinned ") << key->Hex() << '\n';
    }
  }
  return code;
}

}  // namespace

void AddPin(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("pin", "Protect artifacts from eviction", RunPin);
  command.Add("KEY", arguments.keys, kKeyHelp, {.is_required = true});
  command.AddFlag("--unpin", arguments.unpin, "Release them instead");
}

}  // namespace kiln::cli
