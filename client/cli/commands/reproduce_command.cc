#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/output_directory.h"
#include "client/cli/requests/request_json.h"
#include "client/rpc/admin_client.h"

namespace kiln::cli {
namespace {

struct ReproduceArguments {
  std::string key;
  std::string directory;
};

constexpr char kScriptFile[] = "reproduce.py";

// The name of the source in the folder, and the script that compiles it.
struct Kind {
  std::string_view name;
  std::string_view source_file;
  std::string_view script;
};

constexpr Kind kKinds[] = {{"ttir", "kernel.ttir", "reproduce_triton.py"},
                           {"ttgir", "kernel.ttgir", "reproduce_triton.py"},
                           {"cuda", "kernel.cu", "reproduce_native.py"},
                           {"opencl", "kernel.cl", "reproduce_opencl.py"},
                           {"ptx", "kernel.ptx", "reproduce_native.py"}};

// The content of the folder's files, by name:
//
//   kernel.ttir    the source; .ttgir, .cu, .cl or .ptx by its kind
//   request.jsonl  the request, for `kiln compile --requests`
//   expected.json  key, toolchain, and the result: the stages' digests, or the failure
//   reproduce.py   compiles the source with the toolchain alone; imports the other modules
//
using Reproducer = std::map<std::string, std::string>;

// Reads ../lib/kiln/reproduce/`name` relative to this program: the build tree and an installation
// both have it there.
absl::StatusOr<std::string> ReadScript(std::string_view name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = program.parent_path().parent_path() / "lib/kiln/reproduce" / name;
  return ReadSource(path);
}

Json Expected(const admin::v1::GetRequestResponse& found, const Json& document) {
  Json json = {{"key", Hex(found.key())},
               {"toolchain", document.at("toolchain")},
               {"fingerprint", document.at("fingerprint")}};
  for (const v1::StageBlob& stage : found.stages()) {
    json["stages"][stage.stage()] = Hex(stage.digest());
  }
  if (found.has_diagnostics()) json["failure"] = ToJson(found.diagnostics());
  if (!found.crash().empty()) json["failure"]["crash"] = found.crash();
  return json;
}

// INTERNAL where the daemon's answer makes no sense. NOT_FOUND where the scripts are not installed.
absl::StatusOr<Reproducer> MakeReproducer(const admin::v1::GetRequestResponse& found) {
  KILN_ASSIGN_OR_RETURN(const Json document, ParseJson(found.request()));
  for (const char* place : {"/toolchain", "/fingerprint", "/request/kind", "/request/source"}) {
    const Json::json_pointer pointer(place);
    if (!document.contains(pointer) || !document.at(pointer).is_string()) {
      return Internal("the daemon's answer is not a request");
    }
  }
  const Json& request = document.at("request");
  const auto* const kind =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const Kind& each) { return request.at("kind") == each.name; });
  if (kind == std::end(kKinds)) {
    return Internal("this kiln does not know sources of kind {}", Dump(request.at("kind")));
  }
  Reproducer files{{std::string(kind->source_file), request.at("source").get<std::string>()},
                   {"request.jsonl", Dump(request) + "\n"},
                   {"expected.json", DumpPretty(Expected(found, document)) + "\n"}};
  KILN_ASSIGN_OR_RETURN(files[kScriptFile], ReadScript(kind->script));
  for (const char* module : {"common.py", "origins.py", "seccomp.py"}) {
    KILN_ASSIGN_OR_RETURN(files[module], ReadScript(module));
  }
  return files;
}

// Makes `directory` and its parents. Each file appears complete or not at all, and replaces a file
// of an earlier run.
absl::Status WriteReproducer(const Reproducer& reproducer, const std::string& directory) {
  KILN_RETURN_IF_ERROR(OutputDirectory::Open(directory).status());
  for (const auto& [name, content] : reproducer) {
    KILN_RETURN_IF_ERROR(WriteFileAtomically(directory + "/" + name, content));
  }
  const std::string script = directory + "/" + kScriptFile;
  if (::chmod(script.c_str(), 0755) != 0) return ErrnoStatus(errno, script);
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunReproduce(const ReproduceArguments& arguments, Session& session) {
  KILN_RETURN_IF_ERROR(CannotRun(CheckKey(arguments.key)));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  admin::v1::GetRequestRequest request;
  KILN_ASSIGN_OR_RETURN(
      const Digest key,
      About(arguments.key, ResolveKey(*admin, arguments.key, session.Call(kQuestionTime))));
  request.set_key_prefix(key.Hex());
  KILN_ASSIGN_OR_RETURN(
      const auto found,
      About(arguments.key, admin->GetRequest(session.Call(kQuestionTime), request)));
  const std::string directory = arguments.directory.empty()
                                    ? "./kiln-" + Hex(found.key()).substr(0, 12)
                                    : arguments.directory;
  KILN_ASSIGN_OR_RETURN(const Reproducer reproducer, MakeReproducer(found));
  KILN_RETURN_IF_ERROR(CannotRun(About("cannot write", WriteReproducer(reproducer, directory))));
  const Json json{{"key", Hex(found.key())}, {"directory", directory}, {"script", true}};
  session.console().out << (session.json() ? Dump(json) : directory) << std::endl;
  return kOk;
}

}  // namespace

void AddReproduce(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "reproduce", "Write what is needed to repeat a compile without the daemon", RunReproduce);
  command.Add("KEY", arguments.key, kKeyHelp, {.is_required = true});
  command.Add("-o,--output", arguments.directory, "The directory (default: ./kiln-KEY)",
              {.value_name = "DIR", .is_path = true});
}

}  // namespace kiln::cli
