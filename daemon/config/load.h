// Brings the sources of configuration together: flags over environment over file over defaults.
#pragma once

#include <map>
#include <string>
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
  // KILN_SECTION_FIELD; other variables are not looked at.
  Environment environment;
  // "section.field=value", as --set has them; later ones win.
  std::vector<std::string> settings;
};

struct LoadedConfig {
  Config config;
  // Where each field's value comes from, by its full name: "/etc/kiln/kilnd.toml:3",
  // "KILN_STORE_SIZE", "--set". Absent: the default.
  std::map<std::string, std::string> origins;
};

// Every value is checked. Errors: INVALID_ARGUMENT naming source (with file and line), field, value
// and what the field takes; NOT_FOUND or PERMISSION_DENIED where the file cannot be read.
absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources);

// The effective configuration as a TOML file that LoadConfig reads back, each field with its
// documentation and its origin.
std::string PrintConfig(const LoadedConfig& loaded);

}  // namespace kiln
