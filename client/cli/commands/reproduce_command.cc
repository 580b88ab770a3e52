#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/commands/reproducer.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

struct ReproduceArguments {
  std::string key;
  std::string directory;
};

// "./kiln-0123456789ab"
std::string DefaultDirectory(const std::string& key_bytes) {
  return "./kiln-" + Hex(key_bytes).substr(0, 12);
}

ExitCode RunReproduce(const ReproduceArguments& arguments, Session& session) {
  Console& console = session.console();
  if (const absl::Status status = CheckKey(arguments.key); !status.ok()) {
    return CannotRun(console, "reproduce", status);
  }
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) return FailToConnect(console, admin.status());
  admin::v1::GetRequestRequest request;
  request.set_key_prefix(arguments.key);
  const auto found = (*admin)->GetRequest(session.Call(kQuestionTime), request);
  if (!found.ok()) return Fail(console, arguments.key, found.status());
  const std::string directory =
      arguments.directory.empty() ? DefaultDirectory(found->key()) : arguments.directory;
  const auto reproducer = MakeReproducer(*found);
  if (!reproducer.ok()) return Fail(console, "reproduce", reproducer.status());
  const absl::Status written = WriteReproducer(*reproducer, directory);
  if (!written.ok()) return CannotRun(console, "cannot write", written);
  if (session.json()) {
    console.out << DumpFields(
                       {{"key", Hex(found->key())}, {"directory", directory}, {"script", true}})
                << std::endl;
    return kOk;
  }
  console.out << directory << std::endl;
  return kOk;
}

}  // namespace

void AddReproduce(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "reproduce", "Write what is needed to repeat a compile without the daemon", RunReproduce);
  command.Add("KEY", arguments.key, "64 hex digits; of a stored artifact, the first 4 and more",
              {.is_required = true});
  command.Add("-o,--output", arguments.directory, "The directory (default: ./kiln-KEY)",
              {.value_name = "DIR", .is_path = true});
}

}  // namespace kiln::cli
