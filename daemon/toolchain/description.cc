#include "daemon/toolchain/description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/kernel/option_json.h"
#include "daemon/process/json_reader.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kProtocol = 1;
constexpr size_t kWordBytesMax = 128;

absl::Status CheckWord(std::string_view what, std::string_view word) {
  const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '+' || c == '!';
  });
  if (!word.empty() && plain) return absl::OkStatus();
  return FailedPrecondition("{} is not a plain word", what);
}

absl::Status CheckWords(std::string_view what, const std::vector<std::string>& words) {
  if (words.empty()) return FailedPrecondition("{} is empty", what);
  for (const std::string& word : words) KILN_RETURN_IF_ERROR(CheckWord(what, word));
  return absl::OkStatus();
}

absl::StatusOr<OptionType> ParseType(std::string_view name) {
  if (const auto type = ParseOptionType(name)) return *type;
  return FailedPrecondition("it has the unknown type '{}'", name.substr(0, kWordBytesMax));
}

absl::StatusOr<OptionDeclaration> ParseOption(const Json& json) {
  JsonReader reader(json, "declaration");
  const std::string type = reader.String("type", kWordBytesMax);
  KILN_RETURN_IF_ERROR(reader.status());
  OptionDeclaration declaration;
  KILN_ASSIGN_OR_RETURN(declaration.type, ParseType(type));
  if (reader.Has("default")) {
    absl::StatusOr<OptionValue> value = OptionFromJson(json["default"]);
    if (!value.ok()) return Annotate(value.status(), "its default");
    declaration.default_value = *std::move(value);
  }
  return declaration;
}

absl::StatusOr<BackendDescription> ParseBackend(const Json& json) {
  JsonReader reader(json, "backend");
  BackendDescription backend;
  backend.backend = reader.String("backend", kWordBytesMax);
  backend.architectures =
      reader.Strings("architectures", limits::kToolchainArchitecturesMax, kWordBytesMax);
  backend.stages = reader.Strings("stages", limits::kStagesMax, kWordBytesMax);
  const Json& options = reader.Object("options");
  KILN_RETURN_IF_ERROR(reader.status());
  KILN_RETURN_IF_ERROR(CheckWord("a backend's name", backend.backend));
  KILN_RETURN_IF_ERROR(CheckWords("its list of architectures", backend.architectures));
  KILN_RETURN_IF_ERROR(CheckWords("its list of stages", backend.stages));
  if (reader.Has("stages_with")) {
    const Json& stages_with = reader.Object("stages_with");
    KILN_RETURN_IF_ERROR(reader.status());
    JsonReader variants(stages_with, "stages_with");
    for (const auto& [flag, _] : stages_with.items()) {
      backend.stages_with[flag] = variants.Strings(flag.c_str(), limits::kStagesMax, kWordBytesMax);
      KILN_RETURN_IF_ERROR(variants.status());
      KILN_RETURN_IF_ERROR(CheckWords("a list of stages", backend.stages_with[flag]));
    }
  }
  if (options.size() > limits::kOptionsMax) return FailedPrecondition("it has too many options");
  for (const auto& [name, declared] : options.items()) {
    KILN_RETURN_IF_ERROR(CheckWord("an option's name", name));
    absl::StatusOr<OptionDeclaration> option = ParseOption(declared);
    if (!option.ok()) return Annotate(option.status(), fmt::format("option {}", name));
    backend.options.emplace(name, *std::move(option));
  }
  return backend;
}

absl::Status ParseBackends(const Json& list, Toolchain& toolchain) {
  for (const Json& json : list) {
    KILN_ASSIGN_OR_RETURN(BackendDescription backend, ParseBackend(json));
    if (toolchain.FindBackend(backend.backend) != nullptr) {
      return FailedPrecondition("backend {} is there twice", backend.backend);
    }
    toolchain.backends.push_back(std::move(backend));
  }
  return absl::OkStatus();
}

absl::Status ParseKinds(const std::vector<std::string>& words, Toolchain& toolchain) {
  if (words.empty()) return FailedPrecondition("it compiles no kind of source");
  for (const std::string& word : words) {
    KILN_ASSIGN_OR_RETURN(const SourceKind kind, ParseSourceKind(word));
    toolchain.kinds.push_back(kind);
  }
  return absl::OkStatus();
}

absl::StatusOr<Toolchain> Parse(std::string_view text) {
  if (text.size() > limits::kToolchainDescriptionBytesMax) {
    return FailedPrecondition("it is longer than {} bytes", limits::kToolchainDescriptionBytesMax);
  }
  const Json json = Json::parse(text, nullptr, false);
  JsonReader reader(json, "the object");
  const uint64_t protocol = reader.Count("protocol", UINT32_MAX);
  Toolchain toolchain;
  toolchain.name = reader.String("name", kWordBytesMax);
  toolchain.version = reader.String("version", kWordBytesMax);
  toolchain.assembler = reader.String("assembler", limits::kNameBytesMax);
  toolchain.hidden_pointers = static_cast<int64_t>(
      reader.Count("hidden_pointers", static_cast<uint64_t>(limits::kHiddenPointersMax)));
  const std::vector<std::string> kinds =
      reader.Strings("kinds", limits::kSourceKindsMax, kWordBytesMax);
  const Json& backends = reader.Array("backends", limits::kToolchainBackendsMax);
  KILN_RETURN_IF_ERROR(reader.status());
  if (protocol != kProtocol) {
    return FailedPrecondition("it is of protocol {}, this program knows {}", protocol, kProtocol);
  }
  KILN_RETURN_IF_ERROR(CheckWord("its name", toolchain.name));
  KILN_RETURN_IF_ERROR(CheckWord("its version", toolchain.version));
  KILN_RETURN_IF_ERROR(ParseBackends(backends, toolchain));
  KILN_RETURN_IF_ERROR(ParseKinds(kinds, toolchain));
  return toolchain;
}

}  // namespace

absl::StatusOr<Toolchain> ParseDescription(std::string_view text) {
  absl::StatusOr<Toolchain> toolchain = Parse(text);
  if (toolchain.ok()) return toolchain;
  // Whatever is wrong with it, to the caller it is a toolchain that does not work.
  return FailedPrecondition("its description is not valid: {}", Message(toolchain.status()));
}

}  // namespace kiln
