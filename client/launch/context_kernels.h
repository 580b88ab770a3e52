// Which kernels of a context are loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "client/launch/driver/driver.h"
#include "client/launch/kernel.h"

namespace kiln::launch {

// Of each context. Who is the least recently launched is only known since a limit is set.
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

  ResidencyStats& operator+=(const ResidencyStats& other);
};

// One kernel per artifact, loaded at most once, counted by those who opened it.
//
// Loading and unloading wait for what runs on the device: milliseconds to seconds, and a collective
// until its other half has been launched on another device. So both are done under a mutex of this
// context that nothing else takes: no other context, no launch of what is loaded, nobody who opens
// or counts waits for it. And for want of room this context's kernels go, never another's.
//
// Unloading under a stream capture would end it, so it is done with the thread's capture mode
// relaxed, which leaves captures of all modes alone, this thread's and others' (measured on an
// H200). A load for a stream that captures puts it off all the same; Close, Trim and loads
// elsewhere cannot know what captures, and do not. What a live graph launches is never unloaded:
// the graph holds addresses into it.
//
// Thread-safe. Close, Load and Trim block as the driver does.
class ContextKernels {
 public:
  // `tick` only grows: the age of launches, of all contexts.
  ContextKernels(Driver& driver, Context context, std::atomic<uint64_t>& tick,
                 const ResidencyLimits& limits)
      : driver_(driver), context_(context), tick_(tick), limits_(limits) {}
  ContextKernels(const ContextKernels&) = delete;
  ContextKernels& operator=(const ContextKernels&) = delete;

  // Not yet loaded. With one more reference.
  std::shared_ptr<Kernel> Open(std::shared_ptr<const Artifact> artifact, LaunchPlan plan);
  // Gives a reference back; the last one unloads it, or marks it for that.
  void Close(Kernel& kernel);

  // Loads it where it is not. `is_capturing`: the stream that it is wanted for captures.
  // Errors without the kernel's label.
  StatusOr<Kernel::Use> Load(Kernel& kernel, bool is_capturing);
  // Does not load it, nor wait for who does: its function is null where it is not loaded. A use
  // without this one may see nothing while an eviction is thought better of.
  Kernel::Use Find(Kernel& kernel);
  // Unloads what nobody has open, and more where limits are exceeded.
  void Trim();
  void SetLimits(const ResidencyLimits& limits);

  StatusOr<FunctionFacts> FactsOf(const Kernel& kernel) const;
  ResidencyStats Stats() const;

 private:
  // REQUIRES: loading_ is held and mutex_ is not, for all of these.
  Status LoadNow(Kernel& kernel, bool is_capturing);
  StatusOr<LoadedCode> LoadOrMakeRoom(const Artifact& artifact, bool is_capturing);
  Status Adopt(Kernel& kernel, const LoadedCode& code);
  void UnloadAsItCan(Module module) noexcept;
  // False: it stays, since a graph needs it.
  bool TryUnload(Kernel& kernel);
  void DropUnreferenced();
  void MakeRoom(uint64_t more_kernels, uint64_t more_bytes);
  bool EvictOldest();

  // Not behind a load for nothing: without `waits`, no lock where one is under way. What is left
  // then, the next that loads or closes forgets.
  std::unique_lock<std::mutex> LockLoading(bool waits);
  // REQUIRES: mutex_ is held.
  static bool IsToBeUnloaded(const Kernel& kernel);
  static bool IsEarlier(const Kernel& one, const Kernel& other);

  // REQUIRES: mutex_ is not held.
  Kernel* OldestToEvict() const;
  bool IsOver(uint64_t more_kernels, uint64_t more_bytes) const;
  bool HasSomethingToUnload() const;

  Driver& driver_;
  const Context context_;
  std::atomic<uint64_t>& tick_;

  // Taken in this order, a kernel's own in between. The first is held while the driver loads or
  // unloads; a kernel is removed from the map, loaded and unloaded by its holder alone.
  std::mutex loading_;
  // For moments: the driver is asked for nothing while it is held.
  mutable std::mutex mutex_;
  std::map<ArtifactId, std::shared_ptr<Kernel>> kernels_;
  ResidencyLimits limits_;
  ResidencyStats stats_;
};

}  // namespace kiln::launch
