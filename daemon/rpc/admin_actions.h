// What operators may do to the running daemon, behind the administration service. The assembly
// fills it in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/policy/negative_cache.h"
#include "daemon/toolchain/discovered_toolchains.h"
#include "daemon/toolchain/toolchain_installations.h"
#include "kiln/admin/v1/admin_service.pb.h"
#include "storage/base/call_context.h"
#include "storage/base/status.h"
#include "storage/verification.h"

namespace kiln {

// What an operator is told of toolchains beyond what a client is.
struct ToolchainsHere {
  struct Held {
    std::shared_ptr<const Toolchain> toolchain;
    std::string state;
    std::vector<std::string> remarks;
    std::vector<SourceKind> default_kinds;
  };
  std::vector<Held> held;  // the default first, where there is one
  bool has_default = false;
  std::vector<DiscoveredToolchains::Rejected> rejected;
  std::vector<std::string> directories;
  std::string default_selector;
  bool is_default_configured = false;
};

// Thread-safe, each of them. May block for long, but for those that return at once.
struct AdminActions {
  // All of it but the metrics.
  std::function<void(admin::v1::GetStatsResponse& out)> state;
  // Evicts the least valuable until the store occupies at most this much; returns what was evicted,
  // in number.
  std::function<absl::StatusOr<uint64_t>(const CallContext&, uint64_t target_bytes)> evict_to;
  // Reads everything (storage/verification.h) unless the context is cancelled. Reports as it goes,
  // on the same thread.
  std::function<absl::Status(const CallContext&, const VerificationCallback& report)> verify;
  // Kernels in quarantine, and failures that are remembered.
  NegativeCache* negatives = nullptr;
  // The toolchains that are here, and those that are not used.
  std::function<ToolchainsHere()> toolchains;
  // Looks around for toolchains again. Returns at once; `done` is called on another thread when
  // that is done.
  std::function<void(std::function<void(absl::Status)> done)> reload_toolchains;
  // Makes a selector the default; "" for none.
  std::function<absl::Status(const std::string& selector)> set_default_toolchain;
  // Adds and removes installations; both block for seconds.
  std::function<absl::StatusOr<AddedToolchain>(const ToolchainAddition&)> add_toolchain;
  std::function<absl::StatusOr<RemovedInstallation>(const std::string& selector)> remove_toolchain;
  // The file of the keys whose bundles are taken; it need not exist.
  std::string trusted_keys;
  // As on SIGTERM. Returns at once.
  std::function<void()> drain;
};

}  // namespace kiln
