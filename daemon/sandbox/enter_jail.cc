#include "daemon/sandbox/enter_jail.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "daemon/sandbox/landlock.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

using Problems = std::vector<std::string>;

void AddProblem(Problems& problems, std::string_view what) {
  problems.push_back(fmt::format("{}: {}", what, std::strerror(errno)));
}

void SetLimit(int resource, const char* what, uint64_t value, Problems& problems) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0) {
    // Raising the daemon's own limit would need a privilege.
    limit.rlim_cur = limit.rlim_max = std::min<rlim_t>(value, limit.rlim_max);
    if (::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0) return;
  }
  AddProblem(problems, fmt::format("limit its {}", what));
}

bool DropCapabilities() {
  // Otherwise root's programs regain them at exec, and after such a gain the kernel forgets that
  // addresses are not random. A process that may not set this has no capabilities to regain.
  (void)::prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0;
}

// True also where the path does not exist.
bool Allow(int ruleset, const JailPath& path) {
  const UniqueFd opened(::open(path.path.c_str(), O_PATH | O_CLOEXEC));
  if (!opened) return errno == ENOENT || errno == ENOTDIR;
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) return false;
  landlock::PathBeneath beneath;
  beneath.allowed = S_ISDIR(status.st_mode) ? path.access : path.access & landlock::kFileRights;
  beneath.parent = opened.get();
  return landlock::AllowBeneath(ruleset, beneath) == 0;
}

void RestrictFiles(const JailDescription& jail, Problems& problems) {
  const UniqueFd ruleset(
      landlock::CreateRuleset({jail.handled_files, jail.handled_network, jail.scopes}));
  if (!ruleset) return AddProblem(problems, "Landlock");
  for (const JailPath& path : jail.paths) {
    if (!Allow(ruleset.get(), path)) AddProblem(problems, fmt::format("Landlock, {}", path.path));
  }
  if (landlock::RestrictSelf(ruleset.get()) != 0) AddProblem(problems, "Landlock");
}

void FilterSystemCalls(const JailDescription& jail, Problems& problems) {
  std::vector<sock_filter> instructions = jail.filter;
  sock_fprog program{static_cast<unsigned short>(instructions.size()), instructions.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
    AddProblem(problems, "the system call filter");
  }
}

}  // namespace

std::vector<std::string> SetLimits(const WorkerLimits& limits) {
  Problems problems;
  const auto set = [&problems](int resource, const char* what, uint64_t value) {
    if (value != 0) SetLimit(resource, what, value, problems);
  };
  SetLimit(RLIMIT_CORE, "core files", 0, problems);
  set(RLIMIT_FSIZE, "files' size", limits.file_bytes);
  set(RLIMIT_AS, "address space", limits.address_space_bytes);
  set(RLIMIT_NPROC, "processes", limits.processes);
  set(RLIMIT_NOFILE, "descriptors", limits.descriptors);
  set(RLIMIT_CPU, "processor time", limits.cpu_seconds);
  return problems;
}

std::vector<std::string> EnterJail(const JailDescription& jail) {
  Problems problems;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) AddProblem(problems, "no_new_privs");
  if (!DropCapabilities()) AddProblem(problems, "capabilities");
  if (jail.handled_files != 0) RestrictFiles(jail, problems);
  if (!jail.filter.empty()) FilterSystemCalls(jail, problems);
  return problems;
}

bool RefuseStat() {
  constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  constexpr sock_filter kRefuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOENT);
  // The jail's own filter lets no other architecture's numbers through.
  sock_filter refusal[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
#ifdef SYS_stat
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_stat, 0, 1),
      kRefuse,
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lstat, 0, 1),
      kRefuse,
#endif
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 0, 1),
      kRefuse,
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
      kAllow,
      // With this flag it is fstat, since the C library names no file then.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 0, 1),
      kAllow,
      kRefuse,
  };
  sock_fprog program{std::size(refusal), refusal};
  // In a jail this is set already, and may not be set again.
  (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace kiln
