// What workers are locked into, and whether they are.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/sandbox/jail_description.h"
#include "daemon/sandbox/jail_needs.h"
#include "storage/base/mutex.h"
#include "storage/base/status.h"

namespace kiln {

// What this machine's kernel can do for a jail.
struct JailSupport {
  int landlock_abi = 0;      // below 1: none
  bool has_filters = false;  // of system calls

  static JailSupport OfThisKernel();
};

// Makes the jail descriptions that workers start with, and remembers which parts of a jail are
// missing. One object for all pools. Thread-safe; SetAssemblers and Describe block.
class Jail {
 public:
  enum class Mode {
    kOff,      // no jail, for diagnosis
    kOn,       // as much of a jail as this kernel has
    kRequired  // no worker without a full jail
  };

  // Logs what this kernel lacks.
  Jail(Mode mode, const JailSupport& support);

  Mode mode() const { return mode_; }

  // The assemblers that a request may name. Workers described from now on may start them besides
  // their toolchain's programs. Blocks as a disk does.
  void SetAssemblers(const std::vector<std::string>& assemblers);

  // For a worker that works in `directory`. Blocks as a disk does. None: the mode is kOff.
  // FAILED_PRECONDITION where the mode is kRequired and this kernel lacks a part.
  absl::StatusOr<std::optional<JailDescription>> Describe(const JailNeeds& needs,
                                                          const std::string& directory) const;

  // Takes note of the steps of entering its jail that failed in a worker. Logs each problem once.
  // FAILED_PRECONDITION where the worker must not be used.
  absl::Status Admit(std::vector<std::string> problems);

  // Why workers are not in a full jail: what this kernel lacks, and the latest worker's problems.
  std::vector<std::string> Problems() const;

 private:
  // With all rights that Landlock has.
  std::vector<JailPath> PathsFor(const JailNeeds& needs, const std::string& directory) const;
  std::vector<std::string> FindMissing();
  absl::Status Judge(const std::vector<std::string>& problems) const;

  const Mode mode_;
  const JailSupport support_;
  std::vector<sock_filter> filter_;
  const std::vector<std::string> missing_;  // of this kernel
  mutable Mutex mutex_;
  // That every worker may start.
  std::vector<std::string> programs_ KILN_GUARDED_BY(mutex_);
  std::vector<std::string> of_latest_worker_ KILN_GUARDED_BY(mutex_);
  std::set<std::string> logged_ KILN_GUARDED_BY(mutex_);
};

// "off", "on", "required".
std::string_view NameOf(Jail::Mode mode);

}  // namespace kiln
