// The toolchains found in directories. docs/toolchains.md says what one is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/kernel/toolchain.h"
#include "daemon/toolchain/ownership_check.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"

namespace kiln {

class ToolchainSelector;

struct DiscoveryOptions {
  // Each holds toolchains as subdirectories, or is one itself. The first that has a version wins
  // over later ones. Missing ones are fine.
  std::vector<std::string> search_path;
  // Where ToolchainCache keeps what was learned; made where it is missing, its parent must exist.
  // "" keeps nothing.
  std::string cache_directory;
  // An existing directory for temporary files; "" for the system's own.
  std::string work_directory;
  std::string worker_script;  // triton_worker.py
  std::string native_worker;  // kiln-worker; "": what it runs is not looked for
  // The users that may own files of toolchains.
  FileOwners owners = {};
  // What "" selects: a selector itself, for the kinds of source that it compiles. "", and for every
  // other kind: the highest version that fits.
  std::string default_selector;
  std::chrono::milliseconds describe_time = limits::kToolchainDescribeTime;
  // Asked before each is examined; once it is true, the rest is left out. Null: never.
  std::function<bool()> is_cancelled;
};

// Looks around once, when it is made: what is installed later is found by another. Immutable then,
// so thread-safe, and nothing blocks.
class DiscoveredToolchains final : public ToolchainCatalog {
 public:
  // A directory that is there but is not a toolchain that works.
  struct Rejected {
    std::string directory;  // of a native one the file
    std::string reason;
    std::string installation = {};  // as a toolchain's
    // It could not be looked at, or somebody was writing to it: it may work in a moment. Then it
    // may be a directory that holds any number of toolchains.
    bool is_unsettled = false;
  };

  // Blocks: reads every new toolchain in full (half a second each), and starts it to have it
  // describe itself (some seconds); those seen before cost a few milliseconds. Never fails: what
  // does not work is logged and rejected with its reason.
  static std::unique_ptr<DiscoveredToolchains> Discover(const DiscoveryOptions& options,
                                                        Filesystem& filesystem);

  // For tests: as if these had been found, in this order.
  DiscoveredToolchains(std::vector<std::shared_ptr<const Toolchain>> found,
                       std::vector<Rejected> rejected, std::string default_selector);

  // These toolchains with another default.
  std::shared_ptr<const DiscoveredToolchains> WithDefault(std::string default_selector) const;
  const std::string& default_selector() const { return default_selector_; }
  // What `default_selector` would select; FAILED_PRECONDITION or INVALID_ARGUMENT, as Find.
  absl::Status CheckDefault(std::string_view default_selector) const;

  // The first one found of a name and version; a fingerprint names
  // exactly one. FAILED_PRECONDITION with the decision log; INVALID_ARGUMENT where `selector` is
  // none of "", "name==version", or hex digits of one fingerprint.
  absl::StatusOr<std::shared_ptr<const Toolchain>> Find(std::string_view selector, SourceKind kind,
                                                        const Target& target) const override;
  // The default first, then those for TTIR, CUDA C++, PTX and OpenCL C; within each by falling
  // version, equal ones as they were found.
  std::vector<std::shared_ptr<const Toolchain>> List() const override { return toolchains_; }

  bool HasDefault() const override;

  // The kinds of source for which a request without a selector gets `toolchain`, which is of this
  // catalogue, for every target that it has.
  std::vector<SourceKind> DefaultKinds(const Toolchain& toolchain) const;

  const std::vector<Rejected>& rejected() const { return rejected_; }
  // Whether another look may soon find more.
  bool IsUnsettled() const;

  // This catalogue, plus each toolchain of `before` that this look could not examine and that is
  // not known to have changed. Reads the disk.
  std::shared_ptr<const DiscoveredToolchains> Keeping(const DiscoveredToolchains& before) const;

  // "triton==3.6.0 (a1b2c3d4e5f6), …" in that order; "none".
  std::string Describe() const;

 private:
  void LogDefault() const;
  // INVALID_ARGUMENT where more than one begins so.
  absl::Status CheckNamesOne(std::string_view selector, const ToolchainSelector& beginning) const;
  absl::StatusOr<ToolchainSelector> Parsed(std::string_view selector) const;
  absl::StatusOr<ToolchainSelector> Select(std::string_view selector) const;
  absl::StatusOr<ToolchainSelector> SelectFor(std::string_view selector, SourceKind kind) const;
  bool IsUnseen(const Toolchain& toolchain) const;
  bool IsForOtherKinds(const ToolchainSelector& selector, SourceKind kind) const;
  absl::Status NoneHere(SourceKind kind) const;
  absl::Status NoneSelected(std::string_view wanted, const ToolchainSelector& selector) const;
  absl::Status NoneFits(const ToolchainSelector& selector, SourceKind kind,
                        const Target& target) const;

  const std::vector<std::shared_ptr<const Toolchain>> found_;  // in that order
  std::vector<std::shared_ptr<const Toolchain>> toolchains_;
  const std::vector<Rejected> rejected_;
  const std::string default_selector_;
};

}  // namespace kiln
