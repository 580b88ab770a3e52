#include "daemon/policy/memory_probe.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "storage/base/limits.h"

namespace kiln {
namespace {

// How the two versions of control groups call the same things.
struct MemoryFiles {
  const char* limit;
  const char* throttle;  // "": there is none
  const char* used;
  const char* reclaimable;  // in memory.stat
};
constexpr MemoryFiles kUnifiedFiles{"/memory.max", "/memory.high", "/memory.current",
                                    "inactive_file"};
constexpr MemoryFiles kVersion1Files{"/memory.limit_in_bytes", "", "/memory.usage_in_bytes",
                                     "total_inactive_file"};

void TakeLess(std::optional<uint64_t>& least, std::optional<uint64_t> other) {
  if (other && (!least || *other < *least)) least = other;
}

// What the group leaves below its limits; nothing where it has none.
std::optional<uint64_t> LeftInGroup(Filesystem& files, const std::string& group,
                                    const MemoryFiles& names) {
  std::optional<uint64_t> limit = ReadNumber(files, group + names.limit);
  if (*names.throttle != '\0') TakeLess(limit, ReadNumber(files, group + names.throttle));
  if (!limit) return std::nullopt;
  const auto used = ReadNumber(files, group + names.used);
  if (!used) return std::nullopt;
  // The group's page cache counts as used and goes when it is needed.
  const uint64_t cache = ReadField(files, group + "/memory.stat", names.reclaimable).value_or(0);
  const uint64_t needed = *used - std::min(*used, cache);
  return *limit - std::min(*limit, needed);
}

// "some avg10=1.53 avg60=…": 1.53. 0 where the file is not there.
double PressureIn(Filesystem& files, const std::string& path) {
  const auto text = files.Read(path, limits::kKernelFileBytesMax);
  if (!text.ok()) return 0;
  constexpr std::string_view kBefore = "some avg10=";
  const size_t at = text->find(kBefore);
  if (at == std::string::npos) return 0;
  const double percent = std::strtod(text->c_str() + at + kBefore.size(), nullptr);
  return percent > 0 ? std::min(percent, 100.0) : 0;
}

}  // namespace

SystemMemoryProbe::SystemMemoryProbe(Filesystem& files, const Clock& clock, std::string root)
    : files_(files),
      clock_(clock),
      root_(std::move(root)),
      groups_(ControlGroups::Find(files, root_)) {}

MemoryState SystemMemoryProbe::Look() const {
  const MutexLock lock(mutex_);
  const SteadyTime now = clock_.Now();
  if (!looked_at_ || now - *looked_at_ >= limits::kMemoryLookAge) {
    seen_ = LookNow();
    looked_at_ = now;
  }
  return seen_;
}

MemoryState SystemMemoryProbe::LookNow() const {
  MemoryState state;
  state.available_bytes = ReadField(files_, root_ + "/proc/meminfo", "MemAvailable:");
  if (state.available_bytes) *state.available_bytes *= limits::kKiB;
  state.pressure_percent = PressureIn(files_, root_ + "/proc/pressure/memory");
  for (const std::string& group : groups_.unified) {
    TakeLess(state.available_bytes, LeftInGroup(files_, group, kUnifiedFiles));
    state.pressure_percent =
        std::max(state.pressure_percent, PressureIn(files_, group + "/memory.pressure"));
  }
  for (const std::string& group : groups_.memory) {
    TakeLess(state.available_bytes, LeftInGroup(files_, group, kVersion1Files));
  }
  return state;
}

}  // namespace kiln
