// The words by which a request names its toolchain.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/kernel/toolchain.h"
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
  bool Matches(const Toolchain& toolchain) const;
  // What "name==version" asks for; "" in the other forms.
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }

 private:
  std::string name_;
  std::string version_;
  std::optional<Digest> fingerprint_;
};

}  // namespace kiln
