// The table of everything that can be configured.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/config/config.h"
#include "storage/base/status.h"

namespace kiln {

// A value as a source gives it: TOML has types, flags and the environment have text.
using RawValue = std::variant<std::string, int64_t, double, bool, std::vector<std::string>>;
// As it would be written, for messages.
std::string ToText(const RawValue& value);

struct Field {
  std::string_view section;
  std::string_view name;
  std::string_view doc;
  // "a size from 16MiB to 1024TiB"
  std::string form;
  // INVALID_ARGUMENT with what is wrong, without the field's name.
  std::function<absl::Status(Config&, const RawValue&)> set;
  // A TOML literal.
  std::function<std::string(const Config&)> print;

  std::string Name() const { return std::string(section) + "." + std::string(name); }
};

// In the order in which they are printed, sections together.
const std::vector<Field>& Fields();

// INVALID_ARGUMENT naming the nearest known section or field where there is no such one.
absl::StatusOr<const Field*> FindField(std::string_view section, std::string_view name);
bool HasSection(std::string_view section);
absl::Status UnknownSection(std::string_view section);

// Sets it, or says: store.size = "10": expected …
absl::Status SetField(const Field& field, const RawValue& value, Config& config);

}  // namespace kiln
