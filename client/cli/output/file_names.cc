#include "client/cli/output/file_names.h"

#include <fmt/format.h>

#include <cctype>

#include "storage/base/digest.h"

namespace kiln::cli {
namespace {

// Leaves room for a stage's name and a temporary suffix within the 255 bytes that file systems
// take.
constexpr size_t kNameBytesMax = 120;
constexpr size_t kDigestDigits = 16;

bool IsSafe(char c, bool is_inner) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80) return false;
  // A leading dot hides the file or climbs out of the folder; a leading dash reads as an option.
  return std::isalnum(byte) || c == '_' || (is_inner && (c == '-' || c == '.'));
}

}  // namespace

std::string SafeFileName(std::string_view name) {
  if (name.empty()) return "~empty";
  std::string safe;
  size_t cut = 0;  // where it may be cut without splitting an escape
  for (const char c : name) {
    if (IsSafe(c, !safe.empty())) {
      safe += c;
    } else {
      safe += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    if (safe.size() <= kNameBytesMax - kDigestDigits - 1) cut = safe.size();
    if (safe.size() > kNameBytesMax) {
      return safe.substr(0, cut) + "~" + Digest::Of(name).Hex().substr(0, kDigestDigits);
    }
  }
  return safe;
}

std::string FileNames::For(std::string_view name) {
  const std::string safe = SafeFileName(name);
  const uint32_t count = ++used_[safe];
  return count == 1 ? safe : fmt::format("{}~{}", safe, count);
}

}  // namespace kiln::cli
