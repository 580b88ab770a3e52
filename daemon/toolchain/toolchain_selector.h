// The words by which a request names its toolchain.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/compile/toolchain.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// "" (any), "name==version", or a fingerprint's 64 hex digits with or without "sha256:" in front. A
// value.
class ToolchainSelector {
 public:
  // INVALID_ARGUMENT for anything else.
  static absl::StatusOr<ToolchainSelector> Parse(std::string_view text);

  bool IsAny() const { return name_.empty() && !fingerprint_; }
  // "" where it is meant, otherwise what differs: "version differs".
  std::string Differs(const Toolchain& toolchain) const;

 private:
  std::string name_;
  std::string version_;
  std::optional<Digest> fingerprint_;
};

// Whether version `a` is older than `b`: numbers compare as numbers, and "3.6.0" is newer than
// "3.6.0rc1".
bool IsOlder(std::string_view a, std::string_view b);

}  // namespace kiln
