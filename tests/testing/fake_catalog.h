// Toolchains that exist in a test only.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernel/toolchain.h"

namespace kiln {

// A toolchain whose backends and options look like Triton 3.6.0's, shortened.
std::shared_ptr<Toolchain> MakeTriton();

// A ptxas as kiln-worker describes one, shortened.
std::shared_ptr<Toolchain> MakePtxas();

// An NVRTC, likewise.
std::shared_ptr<Toolchain> MakeNvrtc();

// Finds by name among what it was given; the first is the default. Immutable, so thread-safe.
class FakeCatalog final : public ToolchainCatalog {
 public:
  explicit FakeCatalog(std::vector<std::shared_ptr<const Toolchain>> toolchains)
      : toolchains_(std::move(toolchains)) {}

  absl::StatusOr<std::shared_ptr<const Toolchain>> Find(std::string_view selector, SourceKind kind,
                                                        const Target& target) const override;
  std::vector<std::shared_ptr<const Toolchain>> List() const override { return toolchains_; }
  bool HasDefault() const override { return !toolchains_.empty(); }

 private:
  const std::vector<std::shared_ptr<const Toolchain>> toolchains_;
};

}  // namespace kiln
