#include "daemon/config/load.h"

#include <absl/strings/ascii.h>

#include <string_view>

#include "daemon/config/fields.h"
#include "daemon/config/toml_file.h"

namespace kiln {
namespace {

absl::Status Apply(const Field& field, const RawValue& value, std::string origin,
                   LoadedConfig& loaded) {
  if (absl::Status status = SetField(field, value, loaded.config); !status.ok()) {
    return Annotate(status, origin);
  }
  loaded.origins[field.Name()] = std::move(origin);
  return absl::OkStatus();
}

absl::Status ApplyEntry(const TomlEntry& entry, LoadedConfig& loaded) {
  const auto field = FindField(entry.section, entry.name);
  if (!field.ok()) return Annotate(field.status(), entry.place);
  return Apply(**field, entry.value, entry.place, loaded);
}

absl::Status ApplyFile(const ConfigSources& sources, LoadedConfig& loaded) {
  if (sources.file.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<TomlEntry>> entries = ReadTomlFile(sources.file);
  if (absl::IsNotFound(entries.status()) && !sources.file_must_exist) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(entries.status());
  // Reports every mistake at once, so that one edit of the file mends all.
  std::string wrong;
  for (const TomlEntry& entry : *entries) {
    const absl::Status status = ApplyEntry(entry, loaded);
    if (!status.ok()) wrong += fmt::format("{}{}", wrong.empty() ? "" : "\n  ", Message(status));
  }
  return wrong.empty() ? absl::OkStatus() : InvalidArgument("{}", wrong);
}

// What a flag or a variable says is taken as it stands, but a list may be written as in the file:
// ["/a", "/b"].
absl::StatusOr<RawValue> FromText(std::string_view text) {
  if (text.substr(0, 1) != "[") return RawValue(std::string(text));
  KILN_ASSIGN_OR_RETURN(const std::vector<TomlEntry> parsed,
                        ParseToml(fmt::format("[value]\ngiven = {}\n", text), "list"));
  if (parsed.size() != 1) return InvalidArgument("{} is not one list", text);
  return parsed.front().value;
}

absl::Status ApplyText(const Field& field, std::string_view text, const std::string& origin,
                       LoadedConfig& loaded) {
  const auto value = FromText(text);
  if (!value.ok()) return Annotate(value.status(), fmt::format("{}: {}", origin, field.Name()));
  return Apply(field, *value, origin, loaded);
}

// The field that an environment variable sets; null where the variable is none of the daemon's.
absl::StatusOr<const Field*> FieldOf(std::string_view variable) {
  constexpr std::string_view kPrefix = "KILN_";
  if (!variable.starts_with(kPrefix)) return nullptr;
  const std::string name = absl::AsciiStrToLower(std::string(variable.substr(kPrefix.size())));
  // "store_": what begins so is meant for that section. No section has a '_' in its name.
  const size_t end = name.find('_');
  if (end == std::string::npos || !HasSection(name.substr(0, end))) return nullptr;
  return FindField(name.substr(0, end), name.substr(end + 1));
}

absl::Status ApplyEnvironment(const Environment& environment, LoadedConfig& loaded) {
  for (const auto& [variable, text] : environment) {
    const auto field = FieldOf(variable);
    if (!field.ok()) return Annotate(field.status(), variable);
    if (*field != nullptr) KILN_RETURN_IF_ERROR(ApplyText(**field, text, variable, loaded));
  }
  return absl::OkStatus();
}

absl::Status ApplySetting(std::string_view setting, LoadedConfig& loaded) {
  const size_t equals = setting.find('=');
  const size_t dot = setting.substr(0, equals).find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos) {
    return InvalidArgument("--set {}: expected section.field=value, such as store.size=20GiB",
                           setting);
  }
  const auto field = FindField(setting.substr(0, dot), setting.substr(dot + 1, equals - dot - 1));
  if (!field.ok()) return Annotate(field.status(), "--set");
  return ApplyText(**field, setting.substr(equals + 1), "--set", loaded);
}

absl::Status CheckJail(const Config::Workers& workers) {
  if (workers.jail != "off" || !workers.require_jail) return absl::OkStatus();
  return InvalidArgument("\"off\" and workers.require_jail = true contradict each other");
}

}  // namespace

absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources) {
  LoadedConfig loaded;
  KILN_RETURN_IF_ERROR(ApplyFile(sources, loaded));
  KILN_RETURN_IF_ERROR(ApplyEnvironment(sources.environment, loaded));
  for (const std::string& setting : sources.settings) {
    KILN_RETURN_IF_ERROR(ApplySetting(setting, loaded));
  }
  if (!sources.root.empty()) {
    KILN_ASSIGN_OR_RETURN(const Field* const root, FindField("paths", "root"));
    KILN_RETURN_IF_ERROR(Apply(*root, sources.root, sources.root_origin, loaded));
  }
  KILN_RETURN_IF_ERROR(loaded.Blame("workers.jail", CheckJail(loaded.config.workers)));
  return loaded;
}

absl::Status LoadedConfig::Blame(std::string_view setting, const absl::Status& wrong) const {
  if (wrong.ok()) return wrong;
  const auto origin = origins.find(std::string(setting));
  return InvalidArgument("{}: {}: {}", origin == origins.end() ? "the default" : origin->second,
                         setting, Message(wrong));
}

std::string PrintConfig(const LoadedConfig& loaded) {
  std::string text;
  std::string_view section;
  for (const Field& field : Fields()) {
    if (field.section != section) {
      section = field.section;
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    const auto origin = loaded.origins.find(field.Name());
    text += fmt::format("# {}\n# Takes {}. From: {}.\n{} = {}\n", field.doc, field.form,
                        origin == loaded.origins.end() ? "the default" : origin->second, field.name,
                        field.print(loaded.config));
  }
  return text;
}

}  // namespace kiln
