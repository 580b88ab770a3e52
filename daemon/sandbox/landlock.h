// Landlock, as far as the jail uses it. The kernel's own header may be older than the kernel:
// Debian 12's ends with the second version of the interface. What the bits mean stands in the
// kernel's Documentation/userspace-api/landlock.rst.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace kiln::landlock {

// Access to files. The lowest version of the interface ("ABI") that knows a right stands behind it,
// where that is not the first.
inline constexpr uint64_t kExecute = 1 << 0;
inline constexpr uint64_t kWriteFile = 1 << 1;
inline constexpr uint64_t kReadFile = 1 << 2;
inline constexpr uint64_t kReadDirectory = 1 << 3;
inline constexpr uint64_t kRemoveFile = 1 << 5;
inline constexpr uint64_t kMakeFile = 1 << 8;
inline constexpr uint64_t kTruncate = 1 << 14;  // 3

// Everything that a version of the interface can deny.
constexpr uint64_t AllFileRights(int abi) {
  if (abi < 1) return 0;
  const int rights = abi == 1 ? 13 : abi == 2 ? 14 : abi < 5 ? 15 : 16;
  return (uint64_t{1} << rights) - 1;
}
// Binding and connecting of TCP sockets.
constexpr uint64_t AllNetworkRights(int abi) { return abi < 4 ? 0 : 3; }
// Abstract Unix sockets of others, and signals to others.
constexpr uint64_t AllScopes(int abi) { return abi < 6 ? 0 : 3; }
// The rights that a file can have too.
inline constexpr uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | 1 << 15;

// struct landlock_ruleset_attr. An older kernel takes a longer one, as long as what it does not
// know is zero.
struct RulesetAttributes {
  uint64_t handled_files = 0;
  uint64_t handled_network = 0;
  uint64_t scopes = 0;
};

// struct landlock_path_beneath_attr.
struct [[gnu::packed]] PathBeneath {
  uint64_t allowed = 0;
  int32_t parent = -1;
};

// The version of the interface, or -1 where the kernel has none.
inline int Abi() {
  constexpr unsigned kAskVersion = 1;
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion));
}
// A descriptor, or -1 and errno.
inline int CreateRuleset(const RulesetAttributes& attributes) {
  return static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
}
inline int AllowBeneath(int ruleset, const PathBeneath& path) {
  constexpr int kPathBeneath = 1;
  return static_cast<int>(::syscall(SYS_landlock_add_rule, ruleset, kPathBeneath, &path, 0));
}
inline int RestrictSelf(int ruleset) {
  return static_cast<int>(::syscall(SYS_landlock_restrict_self, ruleset, 0));
}

}  // namespace kiln::landlock
