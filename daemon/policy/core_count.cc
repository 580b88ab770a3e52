#include "daemon/policy/core_count.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <thread>

#include "storage/base/limits.h"

namespace kiln {
namespace {

struct Quota {
  int64_t quota_micros = 0;  // CPU time in each period
  int64_t period_micros = 0;
};

// Version 2: "150000 100000", or "max 100000".
std::optional<Quota> ReadCpuMax(Filesystem& files, const std::string& group) {
  const auto text = files.Read(group + "/cpu.max", limits::kKernelFileBytesMax);
  if (!text.ok()) return std::nullopt;
  std::istringstream line(*text);
  Quota quota;
  if (line >> quota.quota_micros >> quota.period_micros) return quota;
  return std::nullopt;
}

// Version 1, where no quota reads "-1" and is no number to ReadNumber.
std::optional<Quota> ReadCfsQuota(Filesystem& files, const std::string& group) {
  const auto quota = ReadNumber(files, group + "/cpu.cfs_quota_us");
  const auto period = ReadNumber(files, group + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return Quota{static_cast<int64_t>(*quota), static_cast<int64_t>(*period)};
}

int Within(const std::optional<Quota>& quota, int cores) {
  if (!quota || quota->quota_micros <= 0 || quota->period_micros <= 0) return cores;
  const int64_t whole = 1 + (quota->quota_micros - 1) / quota->period_micros;
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
  for (const std::string& group : groups.unified) cores = Within(ReadCpuMax(files, group), cores);
  for (const std::string& group : groups.cpu) cores = Within(ReadCfsQuota(files, group), cores);
  return std::max(1, cores);
}

}  // namespace kiln
