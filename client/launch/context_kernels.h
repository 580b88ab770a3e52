// Which kernels of a context are loaded.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "client/launch/driver/driver.h"
#include "client/launch/kernel.h"
#include "client/launch/kiln_launch.h"
#include "storage/base/mutex.h"

namespace kiln::launch {

// The limits of each context.
struct ResidencyLimits {
  uint64_t kernels_max = 0;  // 0: no limit
  uint64_t bytes_max = 0;    // of their binaries; 0: no limit
};

// One kernel per artifact, loaded at most once, counted by those who opened it.
//
// Loading and unloading wait for the device: milliseconds to seconds; a collective waits until its
// other half is launched on another device. So both hold a mutex of this context that nothing else
// takes: other contexts, launches of loaded kernels, Open and AddTo do not wait for it. Only
// kernels of this context are unloaded to make room.
//
// Unloading would end a stream capture, so it runs with the thread's capture mode relaxed, which
// leaves captures of all threads alone (measured on an H200). A load for a capturing stream does
// not unload; Close, Trim and other loads cannot know what captures, and unload. A kernel that a
// live graph launches is never unloaded: the graph holds addresses into it.
//
// Thread-safe. Close, Load and Trim block as the driver does.
class ContextKernels {
 public:
  // `tick` counts launches in all contexts.
  ContextKernels(Driver& driver, Context context, std::atomic<uint64_t>& tick,
                 const ResidencyLimits& limits)
      : driver_(driver), context_(context), tick_(tick), limits_(limits) {}
  ContextKernels(const ContextKernels&) = delete;
  ContextKernels& operator=(const ContextKernels&) = delete;

  // Adds a reference. Does not load.
  std::shared_ptr<Kernel> Open(std::shared_ptr<const Artifact> artifact, LaunchPlan plan);
  // Drops a reference. The last one unloads the kernel, or marks it for unloading.
  void Close(Kernel& kernel);

  // Loads the kernel if it is not loaded. `is_capturing`: it is for a stream that captures. Errors
  // do not name the kernel.
  StatusOr<Kernel::Use> Load(Kernel& kernel, bool is_capturing);
  // Does not load, and does not wait for a load. Null function: not loaded. Waits for an eviction
  // that may be cancelled, which a plain Kernel::Use does not.
  Kernel::Use Find(Kernel& kernel);
  // Unloads kernels that are not open, and kernels above the limits.
  void Trim();
  void SetLimits(const ResidencyLimits& limits);

  StatusOr<FunctionFacts> FactsOf(const Kernel& kernel) const;
  void AddTo(kiln_launch_stats& sum) const;

 private:
  // REQUIRES: loading_ is held and mutex_ is not, for all of these.
  Status LoadNow(Kernel& kernel, bool is_capturing);
  StatusOr<LoadedCode> LoadOrMakeRoom(const Artifact& artifact, bool is_capturing);
  Status Adopt(Kernel& kernel, const LoadedCode& code);
  // Hides the function and waits for launches that use it. A launch may have pinned the kernel
  // meanwhile. Returns the function, so that it can be published again.
  static Function Withdraw(Kernel& kernel);
  // False: a graph needs it.
  bool TryUnload(Kernel& kernel);
  void DropUnreferenced();
  void MakeRoom(uint64_t more_kernels, uint64_t more_bytes);
  bool EvictOldest();

  // Without `waits`: no lock if a load is under way. The next load or close does the work then.
  std::unique_lock<std::mutex> LockLoading(bool waits);
  // REQUIRES: mutex_ is held.
  static bool IsToBeUnloaded(const Kernel& kernel);
  static bool IsEarlier(const Kernel& one, const Kernel& other);

  Kernel* OldestToEvict() const KILN_EXCLUDES(mutex_);
  bool IsOver(uint64_t more_kernels, uint64_t more_bytes) const KILN_EXCLUDES(mutex_);
  bool HasSomethingToUnload() const KILN_EXCLUDES(mutex_);

  Driver& driver_;
  const Context context_;
  std::atomic<uint64_t>& tick_;

  // Lock order: loading_, a kernel's own mutex, mutex_. loading_ is held while the driver loads or
  // unloads; only its holder loads, unloads, and removes kernels from the map.
  std::mutex loading_;
  // Held briefly: never during a call of the driver.
  mutable Mutex mutex_;
  std::map<ArtifactId, std::shared_ptr<Kernel>> kernels_ KILN_GUARDED_BY(mutex_);
  ResidencyLimits limits_ KILN_GUARDED_BY(mutex_);
  kiln_launch_stats stats_ KILN_GUARDED_BY(mutex_){};
};

}  // namespace kiln::launch
