#include "client/cli/commands/reproducer.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/cli/output/format.h"
#include "client/cli/output/output_directory.h"
#include "client/cli/output/parse_json.h"
#include "client/cli/requests/request_json.h"

namespace kiln::cli {
namespace {

constexpr char kScriptFile[] = "reproduce.py";

// The name of the source in the folder, and the script that compiles it.
struct Kind {
  std::string_view source_file;
  std::string_view script;
};

// nullptr for a kind that this version does not know.
const Kind* FindKind(const std::string& name) {
  static const std::map<std::string_view, Kind> kKinds = {
      {"ttir", {"kernel.ttir", "reproduce_triton.py"}},
      {"ttgir", {"kernel.ttgir", "reproduce_triton.py"}},
      {"cuda", {"kernel.cu", "reproduce_native.py"}},
      {"ptx", {"kernel.ptx", "reproduce_native.py"}}};
  const auto found = kKinds.find(name);
  return found == kKinds.end() ? nullptr : &found->second;
}

// Reads ../lib/kiln/reproduce/`name` relative to this program: the build tree and an installation
// both have it there.
absl::StatusOr<std::string> ReadScript(std::string_view name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = program.parent_path().parent_path() / "lib/kiln/reproduce" / name;
  return ReadSource(path);
}

struct Parts {
  Json request;
  std::string toolchain;
  std::string fingerprint;
  std::string kind;
  std::string source;
};

bool Take(const Json& object, const char* name, std::string& out) {
  if (!object.is_object() || !object.contains(name) || !object.at(name).is_string()) return false;
  out = object.at(name).get<std::string>();
  return true;
}

absl::StatusOr<Parts> TakeApart(const std::string& document) {
  KILN_ASSIGN_OR_RETURN(const Json json, ParseJson(document));
  Parts parts;
  const bool is_whole = Take(json, "toolchain", parts.toolchain) &&
                        Take(json, "fingerprint", parts.fingerprint) && json.contains("request") &&
                        Take(json.at("request"), "kind", parts.kind) &&
                        Take(json.at("request"), "source", parts.source);
  if (!is_whole) return Internal("the daemon's answer is not a request");
  parts.request = json.at("request");
  return parts;
}

Json Expected(const admin::v1::GetRequestResponse& found, const Parts& parts) {
  Json json = {{"key", Hex(found.key())},
               {"toolchain", parts.toolchain},
               {"fingerprint", parts.fingerprint}};
  for (const v1::StageBlob& stage : found.stages()) {
    json["stages"][stage.stage()] = Hex(stage.digest());
  }
  if (found.has_diagnostics()) json["failure"] = ToJson(found.diagnostics());
  if (!found.crash().empty()) json["failure"]["crash"] = found.crash();
  return json;
}

}  // namespace

absl::StatusOr<Reproducer> MakeReproducer(const admin::v1::GetRequestResponse& found) {
  KILN_ASSIGN_OR_RETURN(const Parts parts, TakeApart(found.request()));
  const Kind* const kind = FindKind(parts.kind);
  if (kind == nullptr) return Internal("this kiln does not know sources of kind {}", parts.kind);
  Reproducer files{{std::string(kind->source_file), parts.source},
                   {"request.jsonl", Dump(parts.request) + "\n"},
                   {"expected.json", DumpPretty(Expected(found, parts)) + "\n"}};
  KILN_ASSIGN_OR_RETURN(files[kScriptFile], ReadScript(kind->script));
  for (const char* module : {"common.py", "origins.py"}) {
    KILN_ASSIGN_OR_RETURN(files[module], ReadScript(module));
  }
  return files;
}

absl::Status WriteReproducer(const Reproducer& reproducer, const std::string& directory) {
  KILN_RETURN_IF_ERROR(OutputDirectory::Open(directory).status());
  for (const auto& [name, content] : reproducer) {
    KILN_RETURN_IF_ERROR(WriteFileAtomically(directory + "/" + name, content));
  }
  const std::string script = directory + "/" + kScriptFile;
  if (::chmod(script.c_str(), 0755) != 0) return ErrnoStatus(errno, script);
  return absl::OkStatus();
}

}  // namespace kiln::cli
