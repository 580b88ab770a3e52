#include "storage/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "storage/base/utf8.h"

namespace kiln {
namespace {

bool IsPlain(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
}

void AppendValue(std::string& line, std::string_view value) {
  if (IsPlain(value)) {
    line += value;
    return;
  }
  line += '"';
  AppendPrintable(line, value, "\"\\");
  line += '"';
}

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* created = new spdlog::logger("kiln", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    created->flush_on(spdlog::level::info);
    return created;
  }();
  return *logger;
}

void Write(spdlog::level::level_enum level, std::string_view message, LogFields fields) {
  if (!Logger().should_log(level)) return;
  std::string line(message);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    AppendValue(line, field.value);
  }
  Logger().log(level, line);
}

}  // namespace

void LogDebug(std::string_view message, LogFields fields) {
  Write(spdlog::level::debug, message, fields);
}
void LogInfo(std::string_view message, LogFields fields) {
  Write(spdlog::level::info, message, fields);
}
void LogWarning(std::string_view message, LogFields fields) {
  Write(spdlog::level::warn, message, fields);
}
void LogError(std::string_view message, LogFields fields) {
  Write(spdlog::level::err, message, fields);
}

bool LogsDebug() { return Logger().should_log(spdlog::level::debug); }

void SetLogLevel(const std::string& level) { Logger().set_level(spdlog::level::from_str(level)); }

}  // namespace kiln
