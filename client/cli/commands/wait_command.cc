#include <filesystem>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/warmth.h"

namespace kiln::cli {
namespace {

struct WaitArguments {
  std::vector<std::string> files;
  std::string shard;
  RequestFlags flags;
};

absl::StatusOr<ExitCode> RunWait(const WaitArguments& arguments, Session& session) {
  for (const std::string& file : arguments.files) {
    std::error_code error;
    if (file == "-" || std::filesystem::is_other(file, error))
      return CannotRun(InvalidArgument("name a file: it is read several times"));
  }
  WarmthQuestion question{arguments.files, {}, {}};
  KILN_ASSIGN_OR_RETURN(question.shape, CannotRun(RequestTemplate::Of(arguments.flags)));
  KILN_ASSIGN_OR_RETURN(question.shard, CannotRun(Shard::Parse(arguments.shard)));
  return WaitForWarmth(question, session);
}

}  // namespace

void AddWait(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "wait", "Wait until everything that manifests name is in the cache, or --timeout is over",
      RunWait);
  command.Add("MANIFEST", arguments.files, "Manifests, or files with one JSON request a line",
              {.is_required = true, .is_path = true});
  command.Add("--shard", arguments.shard, "Only a part, as 3/16", {.value_name = "K/N"});
  AddCompilerFlags(command, arguments.flags);
}

}  // namespace kiln::cli
