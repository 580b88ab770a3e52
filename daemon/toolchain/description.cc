#include "daemon/toolchain/description.h"

#include <csignal>

#include "daemon/worker/json_reader.h"
#include "daemon/worker/output_capture.h"
#include "daemon/worker/spawn.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr size_t kShortBytesMax = 1024;
constexpr uint64_t kProtocol = 1;

OptionType TypeNamed(const std::string& name) {
  if (name == "bool") return OptionType::kBool;
  if (name == "integer") return OptionType::kInteger;
  if (name == "number") return OptionType::kNumber;
  if (name == "string") return OptionType::kString;
  if (name == "tuple") return OptionType::kTuple;
  return OptionType::kAny;
}

absl::StatusOr<OptionValue> ParseValue(const Json& json, size_t depth) {
  if (depth > limits::kOptionDepthMax) return Internal("a default value is nested too deeply");
  if (json.is_boolean()) return OptionValue{json.get<bool>()};
  if (json.is_number_float()) return OptionValue{json.get<double>()};
  if (json.is_number_integer()) return OptionValue{json.get<int64_t>()};
  if (json.is_string()) return OptionValue{json.get<std::string>()};
  if (!json.is_array()) return Internal("a default value is neither a scalar nor an array");
  OptionTuple tuple;
  for (const Json& item : json) {
    KILN_ASSIGN_OR_RETURN(OptionValue value, ParseValue(item, depth + 1));
    tuple.push_back(std::move(value));
  }
  return OptionValue{std::move(tuple)};
}

absl::StatusOr<OptionDeclaration> ParseOption(const Json& json) {
  JsonReader reader(json, "an option");
  OptionDeclaration option;
  option.type = TypeNamed(reader.String("type", kShortBytesMax));
  KILN_RETURN_IF_ERROR(reader.status());
  if (reader.Has("default")) {
    KILN_ASSIGN_OR_RETURN(option.default_value, ParseValue(json["default"], 0));
  }
  return option;
}

absl::StatusOr<BackendDescription> ParseBackend(const Json& json) {
  JsonReader reader(json, "a backend");
  BackendDescription backend;
  backend.backend = reader.String("backend", kShortBytesMax);
  backend.architectures = reader.Strings("architectures", limits::kOptionsMax, kShortBytesMax);
  backend.stages = reader.Strings("stages", limits::kStagesMax, kShortBytesMax);
  const Json& options = reader.Object("options");
  KILN_RETURN_IF_ERROR(reader.status());
  if (backend.stages.empty() || options.size() > limits::kOptionsMax) {
    return Internal("a backend has no stages, or too many options");
  }
  for (const auto& [name, option] : options.items()) {
    KILN_ASSIGN_OR_RETURN(backend.options[name], ParseOption(option));
  }
  return backend;
}

}  // namespace

absl::Status ParseDescription(std::string_view text, Toolchain& toolchain) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  JsonReader reader(json, "the description");
  const uint64_t protocol = reader.Count("protocol", 1000);
  toolchain.name = reader.String("name", kShortBytesMax);
  toolchain.version = reader.String("version", kShortBytesMax);
  toolchain.assembler = reader.String("assembler", kShortBytesMax);
  toolchain.hidden_pointers = static_cast<int64_t>(reader.Count("hidden_pointers", 16));
  toolchain.kinds = {SourceKind::kTtir};
  const Json& backends = reader.Array("backends", 16);
  KILN_RETURN_IF_ERROR(reader.status());
  if (protocol != kProtocol)
    return Internal("the description is of protocol {}, expected {}", protocol, kProtocol);
  if (backends.empty()) return Internal("no backend of it compiles anything");
  toolchain.backends.clear();
  for (const Json& backend : backends) {
    KILN_ASSIGN_OR_RETURN(BackendDescription parsed, ParseBackend(backend));
    toolchain.backends.push_back(std::move(parsed));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AskForDescription(const std::string& interpreter,
                                              const std::string& script,
                                              const std::string& directory,
                                              std::chrono::milliseconds time_max) {
  KILN_ASSIGN_OR_RETURN(const OutputCapture answer, OutputCapture::Create());
  KILN_ASSIGN_OR_RETURN(const OutputCapture noise, OutputCapture::Create());
  SpawnCommand command;
  command.arguments = {interpreter, "-I", script, "--describe", "--output-fd", "3"};
  command.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + directory,
                         "TMPDIR=" + directory, "TRITON_CACHE_DIR=" + directory};
  command.directory = directory;
  KILN_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, noise.fd(), answer.fd()));
  int wait_status = 0;
  const bool ended = ReapChild(pid, time_max, &wait_status);
  // Whatever is left of it, or all of it when it took too long. It leads its group, which is not
  // reaped before this when it hangs.
  if (!ended) {
    ::kill(-pid, SIGKILL);
    ReapChild(pid, std::chrono::seconds(5), nullptr);
    return DeadlineExceeded("it did not describe itself within {} ms", time_max.count());
  }
  if (wait_status != 0) {
    return Unavailable("it could not describe itself ({}): {}", DescribeWaitStatus(wait_status),
                       noise.Tail(2 * limits::kKiB));
  }
  return answer.Tail(limits::kRecordBytesMax);
}

}  // namespace kiln
