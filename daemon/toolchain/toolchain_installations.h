// Adds toolchains to a running daemon, and removes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/toolchain/served_toolchains.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

struct ToolchainAddition {
  std::string name;     // "triton", "nvrtc", "ptxas", "clang"
  std::string version;  // "": any
  std::string path;     // absolute, of a virtual environment or a CUDA toolkit
};

struct AddedToolchain {
  std::shared_ptr<const Toolchain> toolchain;
  bool is_new = false;  // false: the daemon had it already
};

struct RemovedInstallation {
  std::string path;
  std::vector<std::string> names;  // of the toolchains that it held
};

// Adds an installation by a link in the daemon's own directory, so that it is used in place. The
// daemon refuses one that others may write to, as discovery does; the link is then removed again.
//
// Thread-safe; one change at a time. Blocks until the daemon has looked around: for seconds. Both
// may be called until the daemon stops: then they return UNAVAILABLE.
class ToolchainInstallations {
 public:
  // `own` is one of the `searched` directories. `served` outlives this.
  ToolchainInstallations(ServedToolchains& served, std::vector<std::string> searched,
                         std::string own)
      : served_(served), searched_(std::move(searched)), own_(std::move(own)) {}

  // NOT_FOUND where `path` holds no such toolchain, FAILED_PRECONDITION where the one that it holds
  // cannot be used, ALREADY_EXISTS where the name of the link is taken.
  absl::StatusOr<AddedToolchain> Add(const ToolchainAddition& wanted);

  // Removes the installation that holds a toolchain, with all that it holds: a link only itself.
  // `selector` is "name==version", or the first 8 digits of a fingerprint or more. NOT_FOUND;
  // FAILED_PRECONDITION where several installations hold such a toolchain, or where it is part of
  // another one's installation.
  absl::StatusOr<RemovedInstallation> Remove(const std::string& selector);

 private:
  absl::Status Reload();
  // What the daemon has of `installation`.
  std::vector<std::shared_ptr<const Toolchain>> In(const std::string& installation) const;
  std::shared_ptr<const Toolchain> FindServed(const ToolchainAddition& wanted) const;
  bool IsSearched(const std::string& path) const;
  absl::StatusOr<AddedToolchain> Introduce(const std::string& installation,
                                           const ToolchainAddition& wanted);
  absl::Status WhyNot(const std::string& installation, const ToolchainAddition& wanted) const;
  absl::StatusOr<std::shared_ptr<const Toolchain>> FindNamed(const std::string& selector) const;

  ServedToolchains& served_;
  const std::vector<std::string> searched_;
  const std::string own_;
  Mutex changing_;  // held while one is added or removed
};

}  // namespace kiln
