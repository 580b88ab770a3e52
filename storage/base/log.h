// Structured log lines: a constant message and variable fields.
//
//   LogInfo("store opened", {{"path", path}, {"artifacts", 12}});
//
// writes `… info  store opened path=/var/lib/kiln artifacts=12`. Values with spaces, quotes or
// control characters are quoted and escaped, so that a hostile name cannot forge a line.
// Thread-safe; writes to stderr through spdlog.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace kiln {

struct LogField {
  template <typename T>
  LogField(std::string_view field_name, const T& field_value)
      : name(field_name), value(fmt::format("{}", field_value)) {}

  std::string_view name;
  std::string value;
};

using LogFields = std::initializer_list<LogField>;

void LogDebug(std::string_view message, LogFields fields = {});
void LogInfo(std::string_view message, LogFields fields = {});
void LogWarning(std::string_view message, LogFields fields = {});
void LogError(std::string_view message, LogFields fields = {});

// Whether LogDebug writes anything: for callers to whom making the fields costs something.
bool LogsDebug();
// "debug", "info", "warning" or "error". Call before the first thread starts.
void SetLogLevel(const std::string& level);

}  // namespace kiln
