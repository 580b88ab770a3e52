// The words by which a request names its toolchain.
#pragma once

#include <string>
#include <string_view>

#include "daemon/kernel/toolchain.h"
#include "storage/base/status.h"

namespace kiln {

// "" (any), "name==version", or the first 8 of a fingerprint's hex digits or more, with or without
// "sha256:" in front. A value.
class ToolchainSelector {
 public:
  // INVALID_ARGUMENT for anything else.
  static absl::StatusOr<ToolchainSelector> Parse(std::string_view text);

  bool IsAny() const { return name_.empty() && digits_.empty(); }
  bool Matches(const Toolchain& toolchain) const;
  // Whether several fingerprints may begin so.
  bool IsBeginning() const;
  // What "name==version" asks for; "" in the other forms.
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }

 private:
  std::string name_;
  std::string version_;
  std::string digits_;  // lowercase
};

}  // namespace kiln
