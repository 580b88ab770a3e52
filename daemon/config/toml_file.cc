#include "daemon/config/toml_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>

#include "storage/base/filesystem.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

std::string Place(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}", path, source.begin.line);
}

absl::StatusOr<RawValue> ToRawValue(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return RawValue(*text);
  if (const auto whole = node.value_exact<int64_t>()) return RawValue(*whole);
  if (const auto number = node.value_exact<double>()) return RawValue(*number);
  if (const auto truth = node.value_exact<bool>()) return RawValue(*truth);
  const toml::array* array = node.as_array();
  if (array == nullptr) return InvalidArgument("neither text, number, boolean nor list of texts");
  std::vector<std::string> list;
  for (const toml::node& item : *array) {
    const auto text = item.value_exact<std::string>();
    if (!text) return InvalidArgument("a list may hold only texts");
    list.push_back(*text);
  }
  return RawValue(std::move(list));
}

absl::Status AppendSection(const std::string& section, const toml::table& table,
                           const std::string& path, std::vector<TomlEntry>& out) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string place = Place(path, node.source());
    auto value = ToRawValue(node);
    if (!value.ok()) {
      return InvalidArgument("{}: {}.{}: {}", place, section, name, Message(value.status()));
    }
    out.push_back({section, name, *std::move(value), node.source().begin.line, place});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text, const std::string& path) {
  toml::table document;
  try {
    document = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return InvalidArgument("{}: {}", Place(path, error.source()), error.description());
  }
  std::vector<TomlEntry> entries;
  for (const auto& [key, node] : document) {
    const std::string section(key.str());
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return InvalidArgument("{}: {} stands outside of any section; write it as [section] {} = …",
                             Place(path, node.source()), section, section);
    }
    // Nothing would be looked up in an empty one, so a mistyped name would go unnoticed.
    if (table->empty() && !HasSection(section)) {
      return Annotate(UnknownSection(section), Place(path, node.source()));
    }
    KILN_RETURN_IF_ERROR(AppendSection(section, *table, path, entries));
  }
  // The library sorts by name; messages should name what is wrong first in the file.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return entries;
}

absl::StatusOr<std::vector<TomlEntry>> ReadTomlFile(const std::string& path) {
  // A mounted configuration may be a link.
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error);
  if (error) return ErrnoStatus(error.value(), "cannot read the configuration file " + path);
  const auto text = OsFilesystem().Read(real, limits::kConfigBytesMax);
  if (!text.ok()) return Annotate(text.status(), "cannot read the configuration file");
  return ParseToml(*text, path);
}

}  // namespace kiln
