#include "daemon/toolchain/toolchain_selector.h"

#include <algorithm>
#include <cctype>

#include "daemon/toolchain/decision_log.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr std::string_view kEquals = "==";
constexpr size_t kSelectorWordBytesMax = 64;
constexpr size_t kShownBytesMax = 100;

// What Python's packaging allows in names and versions.
bool IsWord(std::string_view text) {
  return !text.empty() && text.size() <= kSelectorWordBytesMax &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '+' || c == '!';
         });
}

// In lowercase; "" for what is not the beginning of a fingerprint.
std::string FingerprintDigits(std::string_view text) {
  if (text.starts_with(kDigestPrefix)) text.remove_prefix(kDigestPrefix.size());
  const bool is_long_enough = text.size() >= limits::kFingerprintDigitsMin;
  if (!is_long_enough || text.size() > 2 * Digest::kSizeBytes) return "";
  std::string digits(text);
  for (char& digit : digits) {
    if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) return "";
    digit = static_cast<char>(std::tolower(static_cast<unsigned char>(digit)));
  }
  return digits;
}

}  // namespace

absl::StatusOr<ToolchainSelector> ToolchainSelector::Parse(std::string_view text) {
  ToolchainSelector selector;
  if (text.empty()) return selector;
  selector.digits_ = FingerprintDigits(text);
  if (!selector.digits_.empty()) return selector;
  const size_t equals = text.find(kEquals);
  if (equals != std::string_view::npos) {
    selector.name_ = text.substr(0, equals);
    selector.version_ = text.substr(equals + kEquals.size());
  }
  if (!IsWord(selector.name_) || !IsWord(selector.version_)) {
    return InvalidArgument(
        "a toolchain is named as name==version (triton==3.6.0) or by the first {} hex digits of "
        "its fingerprint or more; got \"{}\"",
        limits::kFingerprintDigitsMin, ShortAscii(text, kShownBytesMax));
  }
  return selector;
}

bool ToolchainSelector::IsBeginning() const {
  return !digits_.empty() && digits_.size() < 2 * Digest::kSizeBytes;
}

bool ToolchainSelector::Matches(const Toolchain& toolchain) const {
  if (IsAny()) return true;
  if (!digits_.empty()) return toolchain.fingerprint.Hex().starts_with(digits_);
  return toolchain.name == name_ && toolchain.version == version_;
}

}  // namespace kiln
