#include <cerrno>
#include <filesystem>
#include <fstream>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/output_directory.h"
#include "client/cli/requests/sass.h"
#include "client/rpc/admin_client.h"
#include "client/rpc/client.h"

namespace kiln::cli {
namespace {

struct GetArguments {
  std::string key;
  std::string stage;
  std::string output;
  std::string nvdisasm;
};

// Needs the administration socket only for a shortened key or a name.
absl::StatusOr<Digest> FindKey(const GetArguments& arguments, Session& session) {
  if (auto key = Digest::FromHex(arguments.key); key.ok()) return key;
  const auto admin = session.ConnectAdmin();
  if (!admin.ok()) {
    return Annotate(admin.status(),
                    "a shortened key or a name needs the administration socket; "
                    "give all 64 digits, or");
  }
  return ResolveKey(**admin, arguments.key, session.Call(kQuestionTime));
}

// The stage of that name; the last one, which is the final binary, for "".
absl::StatusOr<v1::StageBlob> FindStage(const v1::LookupResponse::Entry& entry,
                                        const std::string& name) {
  if (!entry.found() || entry.stages().empty()) return NotFound("not in the cache");
  if (name.empty()) return entry.stages(entry.stages_size() - 1);
  std::string names;
  for (const v1::StageBlob& stage : entry.stages()) {
    if (stage.stage() == name) return stage;
    names += " " + stage.stage();
  }
  return NotFound("there is no stage '{}'; there are{}", name, names);
}

absl::StatusOr<std::string> Get(const GetArguments& arguments, Session& session, Client& client) {
  const CallOptions call = session.Call(kQuestionTime);
  KILN_ASSIGN_OR_RETURN(const Digest key, FindKey(arguments, session));
  KILN_ASSIGN_OR_RETURN(const auto entries, client.Lookup({std::string(key.Bytes())}, call));
  const bool is_sass = arguments.stage == kSassStage;
  KILN_ASSIGN_OR_RETURN(const v1::StageBlob stage,
                        FindStage(entries.front(), is_sass ? kCubinStage : arguments.stage));
  absl::StatusOr<std::string> content = client.Fetch(stage.digest(), call);
  if (!is_sass || !content.ok()) return content;
  KILN_ASSIGN_OR_RETURN(const std::string nvdisasm, FindNvdisasm(arguments.nvdisasm));
  return Disassemble(nvdisasm, *content);
}

// Replaces a file in one step, and writes into whatever else stands there: a device, a pipe.
absl::Status Write(const std::string& path, const std::string& content) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::symlink_status(path, error);
  if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there)) {
    return WriteFileAtomically(path, content);
  }
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << content << std::flush;
  return out ? absl::OkStatus() : ErrnoStatus(errno, path);
}

absl::StatusOr<ExitCode> RunGet(const GetArguments& arguments, Session& session) {
  Console& console = session.console();
  KILN_RETURN_IF_ERROR(CannotRun(CheckKey(arguments.key)));
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  KILN_ASSIGN_OR_RETURN(const std::string content,
                        About(arguments.key, Get(arguments, session, *client)));
  if (!arguments.output.empty() && arguments.output != "-") {
    KILN_RETURN_IF_ERROR(CannotRun(About("cannot write", Write(arguments.output, content))));
    return kOk;
  }
  if (console.aligned && content.find('\0') != std::string::npos) {
    return CannotRun(
        InvalidArgument("a binary would garble the terminal; write it to a file with -o"));
  }
  console.out.write(content.data(), static_cast<std::streamsize>(content.size()));
  console.out.flush();
  return console.out.good() ? kOk : kFailed;
}

}  // namespace

void AddGet(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("get", "Write one stage of a stored artifact", RunGet);
  command.Add("KEY", arguments.key, kKeyHelp, {.is_required = true});
  command.Add("--stage", arguments.stage, "ptx, cubin, sass, … (default: the final binary)");
  command.Add("--nvdisasm", arguments.nvdisasm,
              "What makes the stage sass (default: one of PATH or of a toolchain)",
              {.is_path = true});
  command.Add("-o,--output", arguments.output, "The file (default: standard output)",
              {.is_path = true});
}

}  // namespace kiln::cli
