// The toolchains of a daemon, as its hot directory tells of them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "daemon/kernel/toolchain.h"

namespace kiln {

// Finds what the daemon's own catalogue would find, or gives an error: then only the daemon knows
// what a request means, or why it is refused. A toolchain or backend that is known to be bad is in
// neither catalogue: the daemon leaves it out before it lists it. Immutable, so thread-safe.
class PublishedToolchains final : public ToolchainCatalog {
 public:
  // `bytes` are the file `toolchains` (storage/format.md). INVALID_ARGUMENT: it is damaged, or a
  // newer daemon says something in it that this library does not know.
  static absl::StatusOr<std::shared_ptr<const PublishedToolchains>> Parse(std::string_view bytes);

  // FAILED_PRECONDITION where two toolchains could be meant, or none is.
  absl::StatusOr<std::shared_ptr<const Toolchain>> Find(std::string_view selector, SourceKind kind,
                                                        const Target& target) const override;
  std::vector<std::shared_ptr<const Toolchain>> List() const override { return toolchains_; }
  bool HasDefault() const override { return has_default_; }

 private:
  std::vector<std::shared_ptr<const Toolchain>> toolchains_;  // in the daemon's order
  bool has_default_ = false;                                  // the first one
};

}  // namespace kiln
