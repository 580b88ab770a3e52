#include "daemon/toolchain/decision_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/base/limits.h"

namespace kiln {

std::string ShortAscii(std::string_view text, size_t bytes_max) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  if (shown.size() > bytes_max) shown.replace(bytes_max - 3, std::string::npos, "...");
  return shown;
}

void DecisionLog::Add(std::string_view candidate, std::string_view reason) {
  std::string entry = text_.empty() ? "" : "; ";
  entry += ShortAscii(candidate, limits::kDecisionNameBytesMax);
  if (!reason.empty()) entry += ": " + ShortAscii(reason, limits::kDecisionReasonBytesMax);
  if (omitted_ == 0 && text_.size() + entry.size() <= limits::kDecisionLogBytesMax) {
    text_ += entry;
  } else {
    ++omitted_;
  }
}

std::string DecisionLog::ToString() const {
  return omitted_ == 0 ? text_ : fmt::format("{}; and {} more", text_, omitted_);
}

}  // namespace kiln
