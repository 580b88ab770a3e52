// A TOML file as a flat list of settings, each with its place. The only file that knows the TOML
// library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/fields.h"
#include "storage/base/status.h"

namespace kiln {

struct TomlEntry {
  std::string section;
  std::string name;
  RawValue value;
  uint32_t line = 0;
  std::string place;  // "/etc/kiln/kilnd.toml:3"
};

// In the order of the file. INVALID_ARGUMENT with the place for what is not TOML, or not [section]
// name = value.
absl::StatusOr<std::vector<TomlEntry>> ParseToml(std::string_view text, const std::string& path);

// NOT_FOUND, PERMISSION_DENIED, … where it cannot be read; RESOURCE_EXHAUSTED where it is larger
// than any configuration.
absl::StatusOr<std::vector<TomlEntry>> ReadTomlFile(const std::string& path);

}  // namespace kiln
