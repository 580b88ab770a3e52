// Puts kernels on streams. The C interface wraps this class.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "client/launch/argument_list.h"
#include "client/launch/context_kernels.h"
#include "client/launch/driver/driver.h"
#include "client/launch/graph_registry.h"
#include "client/launch/kernel.h"
#include "client/launch/kiln_launch.h"
#include "client/launch/launch_plan.h"
#include "client/launch/scratch.h"
#include "storage/base/mutex.h"

namespace kiln::launch {

// One per driver library in a process. Never destroyed: graphs call back into it. Thread-safe.
class Launcher {
 public:
  explicit Launcher(std::unique_ptr<Driver> driver);

  // A kernel in the thread's current context, or in the primary context of a device (`device` >=
  // 0).
  StatusOr<std::shared_ptr<Kernel>> Open(std::shared_ptr<const Artifact> artifact, int device);
  void Close(Kernel& kernel) { kernel.home().Close(kernel); }

  // Loads the kernel, so that no launch has to. Waits for the device.
  Status Prepare(Kernel& kernel);
  // Puts a launch on its stream. Blocks if the driver does, or if the kernel has to be loaded.
  Status Enqueue(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call) {
    return EnqueueWith(kernel, call, *settings_.load(std::memory_order_acquire));
  }
  // Later work on `stream` waits for the present work on `producer`. Both belong to the kernel's
  // context. `stream` may join the capture of `producer`. FAILED_PRECONDITION: `stream` captures,
  // and `producer` does not capture into the same graph.
  Status Order(const Kernel& kernel, Stream stream, Stream producer);
  // Fills memory of the kernel's device, in stream order.
  Status Fill(const Kernel& kernel, Stream stream, const MemoryRange& range, uint8_t value);
  // Enqueue for a tuning: without hooks, times and `strict`.
  Status EnqueueUnobserved(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call);
  // One context after the other.
  void Trim();

  // The device of the thread's current context, or device number `device` (>= 0).
  StatusOr<DeviceFacts> Device(int device) {
    return device < 0 ? driver_->CurrentDevice() : driver_->DeviceAt(device);
  }
  // The driver's facts about a loaded kernel; the times of its launches since the last call with
  // `resets`.
  StatusOr<FunctionFacts> FactsOf(Kernel& kernel);
  // See kiln_launch_kernel_get_resident_blocks.
  StatusOr<uint32_t> ResidentBlocks(Kernel& kernel, uint32_t threads,
                                    uint32_t dynamic_shared_bytes);
  StatusOr<kiln_launch_times> TimesOf(Kernel& kernel, bool resets = false);

  // Takes effect for launches that begin after it.
  void Configure(const kiln_launch_settings& settings);
  kiln_launch_settings settings() const { return *settings_.load(std::memory_order_acquire); }
  kiln_launch_stats Stats() const;

  Driver& driver() { return *driver_; }
  GraphRegistry& graphs() { return graphs_; }

 private:
  // A kernel in the current context.
  StatusOr<std::shared_ptr<Kernel>> OpenHere(std::shared_ptr<const Artifact> artifact);
  Status CheckMayWait(Stream stream, Stream producer);
  static bool ObservesLaunches(const kiln_launch_settings& settings) {
    return settings.times_launches != 0 || settings.enter_hook != nullptr ||
           settings.exit_hook != nullptr;
  }
  Status EnqueueWith(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call,
                     const kiln_launch_settings& settings) {
    const int result = LaunchPlain(*kernel, call, settings);
    return result == 0 ? Status() : EnqueueObserved(kernel, call, settings, result);
  }
  // The path of nearly all launches, with as little code as possible: the driver's launch evicts
  // this code from the caches. Does not ask for the current context: a created stream belongs to a
  // context, and the driver refuses kernels of another one. Returns the driver's result, or
  // kNotTried: EnqueueObserved launches it.
  int LaunchPlain(Kernel& kernel, const LaunchCall& call, const kiln_launch_settings& settings) {
    DriverLaunch launch;
    if (ObservesLaunches(settings) || !IsMadeStream(call.stream) ||
        !kernel.plan().ResolvePlain(call, launch)) {
      return Driver::kNotTried;
    }
    const Kernel::Use use(kernel);
    if (use.function() == nullptr) return Driver::kNotTried;
    Address no_scratch[] = {0, 0};
    ArgumentList arguments(call.arguments, call.argument_count, no_scratch,
                           kernel.plan().hidden_pointers());
    const int result = driver_->LaunchUncaptured(use.function(), launch, arguments.data());
    if (result == 0) NoteUse(kernel, settings);
    return result;
  }
  // All threads share this count, so it is kept only with limits.
  void NoteUse(Kernel& kernel, const kiln_launch_settings& settings) {
    if (settings.resident_kernels_max > 0 || settings.resident_bytes_max > 0) {
      kernel.NoteUse(tick_.fetch_add(1, std::memory_order_relaxed) + 1);
    }
  }
  // `plain` is the result of LaunchPlain.
  Status EnqueueObserved(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call,
                         const kiln_launch_settings& settings, int plain);
  Status EnqueueLabelled(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call,
                         const kiln_launch_settings& settings, int plain);
  Status LaunchWithScratch(Kernel& kernel, const LaunchCall& call, const DriverLaunch& launch,
                           const kiln_launch_settings& settings, bool is_capturing);
  Status LaunchTimed(Kernel& kernel, const DriverLaunch& launch, void** arguments,
                     const kiln_launch_settings& settings, bool is_capturing);
  // The use has a function. Loads the kernel if the settings allow it.
  StatusOr<Kernel::Use> UseLoaded(Kernel& kernel, const kiln_launch_settings& settings,
                                  bool is_capturing);

  const std::unique_ptr<Driver> driver_;
  std::atomic<uint64_t> tick_{0};  // counts launches
  GraphRegistry graphs_;
  std::atomic<uint64_t> loads_at_launch_{0};
  std::atomic<uint64_t> refused_launches_{0};
  std::atomic<uint64_t> captured_launches_{0};

  // Launches read the settings without a lock. Replaced settings are kept: a launch may still read
  // them.
  std::atomic<const kiln_launch_settings*> settings_;
  std::vector<std::unique_ptr<const kiln_launch_settings>> all_settings_ KILN_GUARDED_BY(mutex_);

  // Taken before a ContextKernels' mutex_. Held briefly.
  mutable Mutex mutex_;
  // By the contexts' ids. Never removed: contexts are few.
  std::map<uint64_t, ContextKernels> contexts_ KILN_GUARDED_BY(mutex_);
};

}  // namespace kiln::launch
