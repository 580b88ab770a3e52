#include "daemon/sandbox/jail.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "daemon/sandbox/file_view.h"
#include "daemon/sandbox/landlock.h"
#include "daemon/sandbox/system_call_filter.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr uint64_t kReadBeneath = landlock::kReadFile | landlock::kReadDirectory;
constexpr uint64_t kRun = landlock::kReadFile | landlock::kExecute;
// Files only: no directories, links, devices or sockets, and nothing is executed. No compiler makes
// directories, and trees are hard to remove.
constexpr uint64_t kWorkBeneath = kReadBeneath | landlock::kWriteFile | landlock::kTruncate |
                                  landlock::kMakeFile | landlock::kRemoveFile;

// The loader of programs reads this file, and so does a dlopen by name alone.
constexpr std::string_view kLoaderCache = "/etc/ld.so.cache";
// A malloc that uses large pages reads here whether there are any, and their size.
constexpr std::string_view kLargePages = "/sys/kernel/mm/transparent_hugepage";

bool CanReturnErrors() {
  const uint32_t action = SECCOMP_RET_ERRNO;
  return ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

}  // namespace

JailSupport JailSupport::OfThisKernel() {
  return {.landlock_abi = landlock::Abi(), .has_filters = CanReturnErrors()};
}

Jail::Jail(Mode mode, const JailSupport& support)
    : mode_(mode), support_(support), missing_(FindMissing()) {
  // Logs what is missing. A caller of Describe receives the error.
  Admit({}).IgnoreError();
}

void Jail::SetAssemblers(const std::vector<std::string>& assemblers) {
  std::vector<std::string> programs = NeedsOfThisProcess(assemblers).programs;
  const MutexLock lock(mutex_);
  programs_.swap(programs);
}

std::vector<std::string> Jail::FindMissing() {
  if (mode_ == Mode::kOff) return {"it is switched off (workers.jail)"};
  std::vector<std::string> missing;
  if (support_.landlock_abi < 1) missing.emplace_back("this kernel has no Landlock");
  if (!support_.has_filters) {
    missing.emplace_back("this kernel has no system call filters (seccomp)");
    return missing;
  }
  auto filter = CompileSystemCallFilter(landlock::AllScopes(support_.landlock_abi) != 0);
  if (filter.ok()) {
    filter_ = *std::move(filter);
  } else {
    missing.emplace_back(Message(filter.status()));
  }
  return missing;
}

absl::StatusOr<std::optional<JailDescription>> Jail::Describe(const JailNeeds& needs,
                                                              const std::string& directory) const {
  if (mode_ == Mode::kOff) return std::nullopt;
  KILN_RETURN_IF_ERROR(Judge(missing_));
  JailDescription jail;
  jail.filter = filter_;
  jail.handled_files = landlock::AllFileRights(support_.landlock_abi);
  jail.handled_network = landlock::AllNetworkRights(support_.landlock_abi);
  jail.scopes = landlock::AllScopes(support_.landlock_abi);
  jail.paths = PathsFor(needs, directory);
  FileView view;
  view.MakeDirectory(directory);
  for (JailPath& path : jail.paths) {
    if (path.path != directory) view.Show(path.path);
    path.access &= jail.handled_files;  // Landlock refuses rights that this kernel does not know
  }
  jail.view = view.Take();
  return jail;
}

std::vector<JailPath> Jail::PathsFor(const JailNeeds& needs, const std::string& directory) const {
  std::vector<JailPath> paths = {{directory, kWorkBeneath},
                                 {"/dev/null", landlock::kReadFile | landlock::kWriteFile}};
  for (const std::string& path : needs.libraries) paths.push_back({path, kReadBeneath});
  for (const std::string& path : needs.programs) paths.push_back({path, kRun});
  if (needs.starts_nothing) return paths;
  paths.push_back({std::string(kLoaderCache), landlock::kReadFile});
  paths.push_back({std::string(kLargePages), landlock::kReadFile});
  const MutexLock lock(mutex_);
  for (const std::string& path : programs_) paths.push_back({path, kRun});
  return paths;
}

absl::Status Jail::Admit(std::vector<std::string> problems) {
  std::vector<std::string> all = missing_;
  all.insert(all.end(), problems.begin(), problems.end());
  const MutexLock lock(mutex_);
  of_latest_worker_ = std::move(problems);
  for (const std::string& problem : all) {
    if (!logged_.insert(problem).second) continue;
    LogError("workers are not fully jailed: a hostile source could reach what the daemon can",
             {{"missing", problem}});
  }
  return Judge(all);
}

absl::Status Jail::Judge(const std::vector<std::string>& problems) const {
  if (mode_ != Mode::kRequired || problems.empty()) return absl::OkStatus();
  return FailedPrecondition("workers.require_jail is set, and workers cannot be jailed fully: {}",
                            fmt::join(problems, "; "));
}

std::string_view NameOf(Jail::Mode mode) {
  return mode == Jail::Mode::kOff ? "off" : mode == Jail::Mode::kOn ? "on" : "required";
}

std::vector<std::string> Jail::Problems() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> problems = missing_;
  problems.insert(problems.end(), of_latest_worker_.begin(), of_latest_worker_.end());
  return problems;
}

}  // namespace kiln
