// Puts kernels on streams: what the C interface is a thin skin over.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/launch/argument_list.h"
#include "client/launch/driver/driver.h"
#include "client/launch/graph_registry.h"
#include "client/launch/kernel.h"
#include "client/launch/launch_plan.h"
#include "client/launch/resident_kernels.h"
#include "client/launch/scratch.h"

namespace kiln::launch {

// Called around each launch, on the launching thread.
struct LaunchHooks {
  using Function = void (*)(void* user, const Kernel& kernel, const LaunchCall& call,
                            const Status& status);
  Function enter = nullptr;  // its status is always OK
  Function exit = nullptr;
  void* user = nullptr;
};

struct LauncherSettings {
  ResidencyLimits limits = {};
  // A launch never loads: a kernel that was not prepared is an error.
  bool is_strict = false;
  bool times_launches = false;
  ScratchAllocator scratch = {};
  LaunchHooks hooks = {};

  bool ObservesLaunches() const {
    return times_launches || hooks.enter != nullptr || hooks.exit != nullptr;
  }
};

struct LauncherStats {
  ResidencyStats residency;
  uint64_t loads_at_launch = 0;   // that a Prepare would have spared
  uint64_t refused_launches = 0;  // by strictness
  uint64_t live_graphs = 0;
};

// One per driver library in a process, and never destroyed: graphs call back into it. Thread-safe.
class Launcher {
 public:
  explicit Launcher(std::unique_ptr<Driver> driver)
      : driver_(std::move(driver)), kernels_(*driver_), graphs_(*driver_) {}

  // Of the thread's current context, or of a device's primary one (`device` >= 0).
  StatusOr<std::shared_ptr<Kernel>> Open(std::shared_ptr<const Artifact> artifact, int device);
  void Close(Kernel& kernel) { kernels_.Close(kernel); }

  // Loads it, so that no launch has to. Waits for what runs on the device.
  Status Prepare(Kernel& kernel);
  // Puts a launch on its stream. Blocks only where the driver does, or where the kernel has to be
  // loaded.
  Status Enqueue(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call) {
    const LauncherSettings& settings = *settings_.load(std::memory_order_acquire);
    const int result = LaunchPlain(*kernel, call, settings);
    return result == 0 ? Status() : EnqueueObserved(kernel, call, settings, result);
  }
  // What comes on `stream` from now on waits for what is on `producer` by now. Both are of the
  // kernel's context. FAILED_PRECONDITION: one captures what the other does not. But `stream` may
  // join the capture of `producer`.
  Status Order(Kernel& kernel, Stream stream, Stream producer);
  // The same with no hook, no measuring and no strictness: of a tuning, not of the job.
  Status EnqueueUnobserved(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call);
  void Trim() { kernels_.Trim(); }

  // Of the thread's current context, or a device's (`device` >= 0).
  StatusOr<DeviceFacts> Device(int device);
  // What the driver says of a loaded kernel; how long its launches took, since the last time with
  // `resets`.
  StatusOr<FunctionFacts> FactsOf(Kernel& kernel);
  StatusOr<KernelTimes> TimesOf(Kernel& kernel, bool resets = false);

  // Takes effect for launches that begin after it.
  void Configure(const LauncherSettings& settings);
  LauncherSettings settings() const;
  LauncherStats Stats() const;

  Driver& driver() { return *driver_; }
  GraphRegistry& graphs() { return graphs_; }

 private:
  Status OrderUnlabelled(const Kernel& kernel, Stream stream, Stream producer);
  Status CheckMayWait(Stream stream, Stream producer);
  Status EnterDevice(int device, std::optional<ScopedContext>& scope);
  // What nearly all launches are, in as little code as possible: the driver's own launch leaves
  // none of it in the caches. It does not ask for the current context either: a stream that
  // somebody made belongs to one, and the driver refuses to launch a kernel of another there. The
  // driver's result, or kNotTried: it goes another way.
  int LaunchPlain(Kernel& kernel, const LaunchCall& call, const LauncherSettings& settings) {
    DriverLaunch launch;
    if (settings.ObservesLaunches() || !IsMadeStream(call.stream) ||
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
  // A count that all threads share, so only where somebody asks.
  void NoteUse(Kernel& kernel, const LauncherSettings& settings) {
    if (settings.limits.IsSet()) kernel.NoteUse(kernels_.NextTick());
  }
  // `plain`: how LaunchPlain has ended.
  Status EnqueueObserved(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call,
                         const LauncherSettings& settings, int plain);
  Status EnqueueLabelled(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call,
                         const LauncherSettings& settings, int plain);
  Status LaunchWithScratch(Kernel& kernel, const LaunchCall& call, const DriverLaunch& launch,
                           const LauncherSettings& settings, bool is_capturing);
  Status LaunchTimed(Kernel& kernel, const DriverLaunch& launch, void** arguments,
                     const LauncherSettings& settings, bool is_capturing);
  // The use has a function. Loads it where settings allow that.
  StatusOr<Kernel::Use> UseLoaded(Kernel& kernel, const LauncherSettings& settings,
                                  bool is_capturing);

  const std::unique_ptr<Driver> driver_;
  ResidentKernels kernels_;
  GraphRegistry graphs_;
  std::atomic<uint64_t> loads_at_launch_{0};
  std::atomic<uint64_t> refused_launches_{0};

  // Launches read them without a lock. Replaced ones stay, since a launch may still read them: they
  // are few.
  std::atomic<const LauncherSettings*> settings_{&kDefaultSettings};
  static const LauncherSettings kDefaultSettings;
  mutable std::mutex settings_mutex_;
  std::vector<std::unique_ptr<const LauncherSettings>> all_settings_;
};

}  // namespace kiln::launch
