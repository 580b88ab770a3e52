#include "storage/base/shared_uid.h"

#include <cstdint>
#include <sstream>

#include "storage/base/limits.h"

namespace kiln {
namespace {

// 0 to 2^32 - 2: the last number is not a uid.
constexpr int64_t kAllUids = 4294967295;
// What kernels begin with.
constexpr uid_t kOverflowUidDefault = 65534;

int64_t CountMapped(const std::string& uid_map) {
  std::istringstream lines(uid_map);
  // First uid here, first uid outside, how many. The kernel lets no two ranges overlap.
  int64_t here = 0, outside = 0, count = 0, mapped = 0;
  while (lines >> here >> outside >> count) mapped += count;
  return mapped;
}

}  // namespace

std::optional<uid_t> SharedUid(const std::string& uid_map, const std::string& overflow_uid) {
  if (CountMapped(uid_map) >= kAllUids) return std::nullopt;
  uid_t uid = 0;
  return std::istringstream(overflow_uid) >> uid ? uid : kOverflowUidDefault;
}

std::optional<uid_t> SharedUidHere(Filesystem& files) {
  const auto uid_map = files.Read("/proc/self/uid_map", limits::kKernelFileBytesMax);
  // A kernel without user namespaces.
  if (absl::IsNotFound(uid_map.status())) return std::nullopt;
  const auto overflow_uid = files.Read("/proc/sys/kernel/overflowuid", limits::kKernelFileBytesMax);
  return SharedUid(uid_map.value_or(""), overflow_uid.value_or(""));
}

absl::Status CheckIsOneUser(std::optional<uid_t> shared_uid, const Principal& principal) {
  if (principal.uid != shared_uid) return absl::OkStatus();
  return PermissionDenied(
      "uid {} is what the daemon's user namespace has for every user that it does not map, so "
      "nothing can be kept for one of them alone: run the daemon outside it, or map this user",
      principal.uid);
}

}  // namespace kiln
