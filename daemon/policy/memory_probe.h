// How much memory is left for compilers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/process/control_groups.h"
#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/mutex.h"

namespace kiln {

struct MemoryState {
  // Bytes that could be used now without swapping. None: unknown.
  std::optional<uint64_t> available_bytes;
  // The share of the last ten seconds in which something waited for memory; 0 where the kernel
  // does not say.
  double pressure_percent = 0;
};

// Thread-safe; does not block beyond reads of the kernel's own files.
class MemoryProbe {
 public:
  virtual ~MemoryProbe() = default;
  virtual MemoryState Look() const = 0;
};

// The least of MemAvailable in /proc/meminfo and of what each control group around the daemon
// leaves below its limit (memory.max, and memory.high, past which the kernel slows it down): in a
// container the machine's memory says little. Pressure is the kernel's "some" over ten seconds, the
// machine's or the own groups', whichever is higher.
//
// Looks again once what it knows is older than limits::kMemoryLookAge.
class SystemMemoryProbe final : public MemoryProbe {
 public:
  // `root` is "" but in tests. Both outlive the probe.
  SystemMemoryProbe(Filesystem& files, const Clock& clock, std::string root = "");

  MemoryState Look() const override;

 private:
  MemoryState LookNow() const;

  Filesystem& files_;
  const Clock& clock_;
  const std::string root_;
  const ControlGroups groups_;

  mutable Mutex mutex_;
  mutable std::optional<SteadyTime> looked_at_ KILN_GUARDED_BY(mutex_);
  mutable MemoryState seen_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln
