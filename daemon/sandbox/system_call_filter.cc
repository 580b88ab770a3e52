#include "daemon/sandbox/system_call_filter.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// The calls of Python with LLVM, of ptxas and of their C library, found with strace over every
// example kernel and target, and the variants that another C library would use. NVRTC makes no
// other call (strace over 40 compiles for five architectures). Left out on purpose:
//
// * sockets: the socket to the daemon is open already;
// * changes of a file that Landlock does not govern: chmod, chown, utime, setxattr, truncate;
// * memfd_create and execveat, which run code that has no path;
// * setsid and setpgid: the daemon kills a worker by its process group;
// * ptrace, process_vm_*, pidfd_*, mounts, keys, BPF, io_uring, namespaces, modules, clocks.
constexpr std::initializer_list<const char*> kAllowed = {
    // Memory.
    "brk", "mmap", "mmap2", "munmap", "mremap", "mprotect", "madvise", "msync", "mincore",
    "membarrier",
    // Files that Landlock lets through.
    "open", "openat", "creat", "close", "read", "write", "readv", "writev", "pread64", "pwrite64",
    "preadv", "pwritev", "lseek", "_llseek", "ftruncate", "fallocate", "fsync", "fdatasync",
    "fadvise64", "flock", "unlink", "unlinkat", "rename", "renameat", "renameat2", "getdents",
    "getdents64", "umask", "copy_file_range", "sendfile",
    // What files are, which Landlock does not hide.
    "stat", "fstat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2",
    "readlink", "readlinkat", "getcwd", "chdir", "fchdir", "statfs", "fstatfs",
    // Descriptors.
    "dup", "dup2", "dup3", "pipe", "pipe2", "close_range", "poll", "ppoll", "select", "pselect6",
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2", "recvfrom", "shutdown",
    // Processes and threads of its own.
    "fork", "vfork", "execve", "exit", "exit_group", "wait4", "waitid", "set_tid_address",
    "set_robust_list", "rseq", "arch_prctl", "futex", "sched_yield", "sched_getaffinity",
    "sched_getparam", "sched_getscheduler", "sched_get_priority_min", "sched_get_priority_max",
    "getcpu", "getpid", "getppid", "gettid", "getpgrp", "getpgid", "getsid", "getpriority",
    // The process's ids, limits and clocks.
    "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "uname",
    "sysinfo", "getrusage", "getrlimit", "setrlimit", "times", "getrandom",
    // Signals to itself, and time.
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend",
    "rt_sigtimedwait", "sigaltstack", "pause", "restart_syscall", "clock_gettime", "clock_getres",
    "clock_nanosleep", "nanosleep", "gettimeofday", "time", "alarm", "setitimer", "getitimer"};

constexpr unsigned long long kNewNamespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC |
                                              CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
                                              CLONE_NEWCGROUP | CLONE_NEWTIME;

// libseccomp's own macros for these are C, not C++.
scmp_arg_cmp ArgumentIs(unsigned argument, scmp_datum_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}
scmp_arg_cmp ArgumentHasNoneOf(unsigned argument, scmp_datum_t bits) {
  return {argument, SCMP_CMP_MASKED_EQ, bits, 0};
}

class FilterBuilder {
 public:
  FilterBuilder() : context_(::seccomp_init(SCMP_ACT_ERRNO(EPERM)), &::seccomp_release) {
    Check(context_ == nullptr ? -ENOMEM : 0, "start");
    // Another architecture has other numbers for the same calls. No compiler starts such a program.
    Check(::seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
          "other architectures");
    // A tree instead of a list: ten comparisons for a call instead of a hundred.
    Check(::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2), "order as a tree");
  }

  template <typename... Conditions>
  void Allow(const char* call, Conditions... conditions) {
    Add(SCMP_ACT_ALLOW, call, conditions...);
  }
  // Pretends that this kernel lacks the call; the C library then uses another one.
  void Hide(const char* call) { Add(SCMP_ACT_ERRNO(ENOSYS), call); }

  absl::StatusOr<std::vector<sock_filter>> Compile() {
    const UniqueFd file(::memfd_create("kiln-system-call-filter", MFD_CLOEXEC));
    if (!file) return ErrnoStatus(errno, "memfd_create");
    Check(::seccomp_export_bpf(context_.get(), file.get()), "compile");
    KILN_RETURN_IF_ERROR(status_);
    struct stat status {};
    ::fstat(file.get(), &status);
    std::vector<sock_filter> program(static_cast<size_t>(status.st_size) / sizeof(sock_filter));
    if (::pread(file.get(), program.data(), static_cast<size_t>(status.st_size), 0) !=
        status.st_size) {
      return ErrnoStatus(errno, "read a filter");
    }
    return program;
  }

 private:
  template <typename... Conditions>
  void Add(uint32_t action, const char* call, Conditions... conditions) {
    const int number = ::seccomp_syscall_resolve_name(call);
    // Not every architecture has every call.
    if (number == __NR_SCMP_ERROR || number < 0) return;
    Check(::seccomp_rule_add(context_.get(), action, number, sizeof...(conditions), conditions...),
          call);
  }

  void Check(int result, const char* what) {
    if (result == 0 || !status_.ok()) return;
    status_ = Internal("the system call filter, {}: {}", what, std::strerror(-result));
  }

  absl::Status status_;
  std::unique_ptr<void, decltype(&::seccomp_release)> context_;
};

void AllowWithConditions(FilterBuilder& filter) {
  // Threads and children, but no namespaces. clone3 has its flags in memory, where a filter cannot
  // look.
  filter.Allow("clone", ArgumentHasNoneOf(0, kNewNamespaces));
  filter.Hide("clone3");
  // On the socket to the daemon; never to an address.
  filter.Allow("sendto", ArgumentIs(4, 0));
  // For the calling process only. The daemon may run as the same user without privileges, and the
  // kernel would let a worker change the daemon.
  for (const char* call : {"prlimit64", "sched_setaffinity", "get_robust_list"}) {
    filter.Allow(call, ArgumentIs(0, 0));
  }
  // Not F_SETOWN and F_SETSIG: a file that is ready sends any signal to any owner. Without an
  // owner, O_ASYNC of F_SETFL signals nobody.
  for (const int command :
       {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW}) {
    filter.Allow("fcntl", ArgumentIs(1, static_cast<scmp_datum_t>(command)));
  }
  // What opening a file asks of it.
  for (const unsigned long request :
       {static_cast<unsigned long>(TCGETS), static_cast<unsigned long>(FIOCLEX),
        static_cast<unsigned long>(FIONCLEX), static_cast<unsigned long>(FIONBIO)}) {
    filter.Allow("ioctl", ArgumentIs(1, request));
  }
  for (const int option :
       {PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA}) {
    filter.Allow("prctl", ArgumentIs(0, static_cast<scmp_datum_t>(option)));
  }
  // Another filter can only take away (RefuseStat).
  filter.Allow("prctl", ArgumentIs(0, PR_SET_SECCOMP), ArgumentIs(1, SECCOMP_MODE_FILTER));
  // To ask, and for an assembler whose result depends on addresses.
  for (const unsigned long persona :
       {0xffffffffUL, static_cast<unsigned long>(ADDR_NO_RANDOMIZE)}) {
    filter.Allow("personality", ArgumentIs(0, persona));
  }
}

}  // namespace

absl::StatusOr<std::vector<sock_filter>> CompileSystemCallFilter(bool signals_are_scoped) {
  FilterBuilder filter;
  for (const char* call : kAllowed) filter.Allow(call);
  AllowWithConditions(filter);
  if (signals_are_scoped) {
    // abort() signals its own thread; where that is refused, it dies of another signal all the
    // same.
    for (const char* call : {"kill", "tkill", "tgkill"}) filter.Allow(call);
  }
  return filter.Compile();
}

}  // namespace kiln
