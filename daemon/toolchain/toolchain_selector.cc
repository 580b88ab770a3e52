#include "daemon/toolchain/toolchain_selector.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace kiln {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kDigestHexDigits = 64;

bool IsHexDigest(std::string_view text) {
  return text.size() == kDigestHexDigits &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "3.10.1+git12" → {3, 10, 1} and "+git12".
struct Version {
  std::vector<uint64_t> numbers;
  std::string_view rest;
};

Version SplitVersion(std::string_view text) {
  Version version;
  while (!text.empty() && IsDigit(text.front()) && version.numbers.size() < 8) {
    uint64_t number = 0;
    while (!text.empty() && IsDigit(text.front()) && number < 1'000'000'000) {
      number = 10 * number + static_cast<uint64_t>(text.front() - '0');
      text.remove_prefix(1);
    }
    version.numbers.push_back(number);
    if (text.size() < 2 || text.front() != '.' || !IsDigit(text[1])) break;
    text.remove_prefix(1);
  }
  version.rest = text;
  return version;
}

// Pre-releases stand before the release, local versions ("+…") and post-releases after it.
int RankOfRest(std::string_view rest) {
  if (rest.empty()) return 1;
  return rest.front() == '+' || rest.substr(0, 5) == ".post" ? 2 : 0;
}

}  // namespace

absl::StatusOr<ToolchainSelector> ToolchainSelector::Parse(std::string_view text) {
  ToolchainSelector selector;
  if (text.empty()) return selector;
  std::string_view hex = text;
  if (hex.substr(0, kDigestPrefix.size()) == kDigestPrefix) hex.remove_prefix(kDigestPrefix.size());
  if (IsHexDigest(hex)) {
    KILN_ASSIGN_OR_RETURN(selector.fingerprint_, Digest::FromHex(hex));
    return selector;
  }
  const size_t equals = text.find("==");
  if (equals == std::string_view::npos || equals == 0 || equals + 2 == text.size()) {
    return InvalidArgument(
        "a toolchain is named as name==version (triton==3.6.0) or by the 64 hex digits of its "
        "fingerprint; got \"{}\"",
        text.substr(0, 200));
  }
  selector.name_ = text.substr(0, equals);
  selector.version_ = text.substr(equals + 2);
  return selector;
}

std::string ToolchainSelector::Differs(const Toolchain& toolchain) const {
  if (fingerprint_ && *fingerprint_ != toolchain.fingerprint) return "fingerprint differs";
  if (!name_.empty() && name_ != toolchain.name) return "name differs";
  if (!version_.empty() && version_ != toolchain.version) return "version differs";
  return "";
}

bool IsOlder(std::string_view a, std::string_view b) {
  const Version left = SplitVersion(a);
  const Version right = SplitVersion(b);
  if (left.numbers != right.numbers) return left.numbers < right.numbers;
  const int left_rank = RankOfRest(left.rest);
  const int right_rank = RankOfRest(right.rest);
  return left_rank != right_rank ? left_rank < right_rank : left.rest < right.rest;
}

}  // namespace kiln
