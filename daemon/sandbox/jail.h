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

// Makes the descriptions that workers are started with, and keeps what is missing of them. One for
// all pools. Thread-safe; nothing blocks but SetAssemblers.
class Jail {
 public:
  enum class Mode {
    kOff,      // no jail, for diagnosis
    kOn,       // as much of it as this kernel has
    kRequired  // no worker without all of it
  };

  // Says in the log what is missing from the beginning. `assemblers` as below.
  Jail(Mode mode, const JailSupport& support, const std::vector<std::string>& assemblers = {});

  Mode mode() const { return mode_; }

  // What workers described from now on may start besides what their toolchain knows of: each
  // assembler that a request may name. Blocks as a disk does.
  void SetAssemblers(const std::vector<std::string>& assemblers);

  // For a worker that works in `directory`; none where it is not to be jailed. FAILED_PRECONDITION
  // where it must be and this kernel cannot.
  absl::StatusOr<std::optional<JailDescription>> Describe(const JailNeeds& needs,
                                                          const std::string& directory) const;

  // A worker has said what of it it could not enter. The log hears of everything once.
  // FAILED_PRECONDITION where such a worker must not be used.
  absl::Status Admit(std::vector<std::string> problems);

  // What keeps workers out of a full jail: what this kernel lacks, and what the latest worker said.
  std::vector<std::string> Problems() const;

 private:
  // Once for all workers; both, since which one a worker needs is for its zygote to say.
  absl::Status CompileFilters();
  std::vector<std::string> FindMissing();
  absl::Status Judge(const std::vector<std::string>& problems) const;

  const Mode mode_;
  const JailSupport support_;
  std::vector<sock_filter> filter_;
  std::vector<sock_filter> dating_filter_;  // where a worker dates files
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
