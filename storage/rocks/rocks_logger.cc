#include "storage/rocks/rocks_logger.h"

#include <cstdarg>
#include <cstdio>
#include <string_view>

#include "storage/base/log.h"

namespace kiln {
namespace {

class RocksLogger final : public rocksdb::Logger {
 public:
  RocksLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}

  void Logv(const char* format, va_list arguments) override {
    Logv(rocksdb::InfoLogLevel::INFO_LEVEL, format, arguments);
  }

  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < GetInfoLogLevel()) return;
    char line[1024];
    const int length = std::vsnprintf(line, sizeof line, format, arguments);
    if (length < 0) return;
    if (level >= rocksdb::InfoLogLevel::ERROR_LEVEL) {
      LogWarning("rocksdb", {{"says", std::string_view(line)}});
    } else {
      LogDebug("rocksdb", {{"says", std::string_view(line)}});
    }
  }
};

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeRocksLogger() { return std::make_shared<RocksLogger>(); }

}  // namespace kiln
