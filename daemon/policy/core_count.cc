#include "daemon/policy/core_count.h"

#include <sched.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "storage/base/limits.h"

namespace kiln {
namespace {

// A period has `quota_micros` of CPU time. No quota is 0 or less.
int Within(int64_t quota_micros, int64_t period_micros, int cores) {
  if (quota_micros <= 0 || period_micros <= 0) return cores;
  const int64_t whole = 1 + (quota_micros - 1) / period_micros;
  return static_cast<int>(std::min<int64_t>(cores, whole));
}

}  // namespace

int AffinityCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) {
    // More than 1024 cores, which the set has no room for.
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  return std::max(1, CPU_COUNT(&cores));
}

int CoresWithinQuota(const ControlGroups& groups, Filesystem& files, int cores) {
  int64_t quota = 0;
  int64_t period = 0;
  for (const std::string& group : groups.unified) {
    // "150000 100000", or "max 100000".
    std::istringstream line(
        files.Read(group + "/cpu.max", limits::kKernelFileBytesMax).value_or(""));
    if (line >> quota >> period) cores = Within(quota, period, cores);
  }
  for (const std::string& group : groups.cpu) {
    // No quota reads "-1" and is no number to ReadNumber.
    quota = static_cast<int64_t>(ReadNumber(files, group + "/cpu.cfs_quota_us").value_or(0));
    period = static_cast<int64_t>(ReadNumber(files, group + "/cpu.cfs_period_us").value_or(0));
    cores = Within(quota, period, cores);
  }
  return std::max(1, cores);
}

}  // namespace kiln
