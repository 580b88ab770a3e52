#include "daemon/toolchain/toolchain_selector.h"

#include <algorithm>
#include <cctype>

#include "daemon/toolchain/decision_log.h"

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

}  // namespace

absl::StatusOr<ToolchainSelector> ToolchainSelector::Parse(std::string_view text) {
  ToolchainSelector selector;
  if (text.empty()) return selector;
  std::string_view hex = text;
  if (hex.starts_with(kDigestPrefix)) hex.remove_prefix(kDigestPrefix.size());
  if (const auto fingerprint = Digest::FromHex(hex); fingerprint.ok()) {
    selector.fingerprint_ = *fingerprint;
    return selector;
  }
  const size_t equals = text.find(kEquals);
  if (equals != std::string_view::npos) {
    selector.name_ = text.substr(0, equals);
    selector.version_ = text.substr(equals + kEquals.size());
  }
  if (!IsWord(selector.name_) || !IsWord(selector.version_)) {
    return InvalidArgument(
        "a toolchain is named as name==version (triton==3.6.0) or by the 64 hex digits of its "
        "fingerprint; got \"{}\"",
        ShortAscii(text, kShownBytesMax));
  }
  return selector;
}

bool ToolchainSelector::Matches(const Toolchain& toolchain) const {
  if (IsAny()) return true;
  if (fingerprint_) return toolchain.fingerprint == *fingerprint_;
  return toolchain.name == name_ && toolchain.version == version_;
}

}  // namespace kiln
