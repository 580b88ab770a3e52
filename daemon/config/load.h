// Brings the sources of configuration together: flags over environment over file over defaults.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/config/paths.h"
#include "storage/base/status.h"

namespace kiln {

struct ConfigSources {
  // "" for none.
  std::string file;
  // False: a file that is not there counts as empty.
  bool file_must_exist = false;
  // KILN_SECTION_FIELD. Of a known section every variable must be a field's; others are not looked
  // at, since clients have variables of their own.
  Environment environment;
  // "section.field=value", as --set has them; later ones win.
  std::vector<std::string> settings;
  // "" for none; wins over all of the above. Absolute.
  std::string root;
  // The flag or variable that gave it, for messages: "--root" or "KILN_ROOT".
  std::string root_origin;
};

struct LoadedConfig {
  Config config;
  // Where each field's value comes from, by its full name: "/etc/kiln/kilnd.toml:3",
  // "KILN_STORE_SIZE", "--set", "--root". Absent: the default.
  std::map<std::string, std::string> origins;

  // OK as it is. What is wrong with the value of the setting of that full name becomes
  // INVALID_ARGUMENT that says where the value comes from.
  absl::Status Blame(std::string_view setting, const absl::Status& wrong) const;
};

// Every value is checked. Errors: INVALID_ARGUMENT naming source (with file and line), field, value
// and what the field takes; NOT_FOUND or PERMISSION_DENIED where the file cannot be read.
absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources);

// The effective configuration as a TOML file that LoadConfig reads back, each field with its
// documentation and its origin.
std::string PrintConfig(const LoadedConfig& loaded);

}  // namespace kiln
