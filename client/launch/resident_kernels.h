// Which kernels are loaded.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "client/launch/driver.h"
#include "client/launch/kernel.h"

namespace kiln::launch {

// Who is the least recently launched is only known since a limit is set.
struct ResidencyLimits {
  uint64_t kernels_max = 0;  // 0: no limit
  uint64_t bytes_max = 0;    // of their binaries; 0: no limit

  bool IsSet() const { return kernels_max > 0 || bytes_max > 0; }
};

struct ResidencyStats {
  uint64_t open = 0;
  uint64_t resident = 0;
  uint64_t resident_bytes = 0;
  uint64_t loads = 0;
  uint64_t unloads = 0;
  uint64_t evictions = 0;            // unloads to keep a limit, or for want of memory
  uint64_t unloads_put_off = 0;      // because something captured, or a live graph needs the kernel
  uint64_t out_of_memory_loads = 0;  // that found no memory at first
};

// One kernel per artifact and context, loaded at most once, counted by those who opened it.
//
// Loading and unloading wait for what runs on the device (milliseconds to seconds), so neither is
// done while a launch holds the mutex for anything else: launches take none. Unloading under a
// stream capture would end it, so it is done with the thread's capture mode relaxed, which leaves
// captures of all modes alone, this thread's and others' (measured on an H200). A load for a stream
// that captures puts it off all the same; Close, Trim and loads elsewhere cannot know what
// captures, and do not. What a live graph launches is never unloaded: the graph holds addresses
// into it.
//
// Thread-safe. Blocks as the driver does.
class ResidentKernels {
 public:
  explicit ResidentKernels(Driver& driver) : driver_(driver) {}

  // The kernel of the artifact in the current context, not yet loaded. With one more reference.
  StatusOr<std::shared_ptr<Kernel>> Open(std::shared_ptr<const Artifact> artifact);
  // Gives a reference back; the last one unloads it, or marks it for that.
  void Close(Kernel& kernel);

  // Loads it where it is not. `is_capturing`: the stream that it is wanted for captures.
  // Errors without the kernel's label.
  StatusOr<Kernel::Use> Load(Kernel& kernel, bool is_capturing);
  // Does not load it: its function is null where it is not loaded. Waits for whoever loads or
  // unloads; a use without this one may see nothing while an eviction is thought better of.
  Kernel::Use Find(Kernel& kernel);
  // Unloads what nobody has open, and more where limits are exceeded.
  void Trim();
  void SetLimits(const ResidencyLimits& limits);

  StatusOr<FunctionFacts> FactsOf(Kernel& kernel);
  uint64_t NextTick() { return tick_.fetch_add(1, std::memory_order_relaxed) + 1; }
  ResidencyStats Stats() const;

 private:
  struct Id {
    uint64_t context_id;
    ArtifactId artifact;
    auto operator<=>(const Id&) const = default;
  };

  // REQUIRES: mutex_ is held, for all of these.
  Status LoadNow(Kernel& kernel, bool is_capturing);
  Status Adopt(Kernel& kernel, const LoadedCode& code);
  void UnloadAsItCan(Module module) noexcept;
  // False: it stays, since a graph needs it.
  bool TryUnload(Kernel& kernel);
  void DropUnreferenced();
  void MakeRoom(const Kernel& keep, uint64_t more_kernels, uint64_t more_bytes);
  Kernel* OldestToEvict(const Kernel* keep);
  bool EvictOldest(const Kernel* keep);
  bool IsOver(uint64_t more_kernels, uint64_t more_bytes) const;

  Driver& driver_;
  std::atomic<uint64_t> tick_{0};
  mutable std::mutex mutex_;
  std::map<Id, std::shared_ptr<Kernel>> kernels_;
  ResidencyLimits limits_;
  ResidencyStats stats_;
};

}  // namespace kiln::launch
