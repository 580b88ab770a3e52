#include "client/launch/launcher.h"

#include <algorithm>
#include <optional>

#include "client/launch/argument_list.h"

namespace kiln::launch {
namespace {

std::string Describe(const DriverLaunch& launch) {
  std::string text = fmt::format("grid {}x{}x{}, block {}x{}x{}, {} bytes of dynamic shared memory",
                                 launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0],
                                 launch.block[1], launch.block[2], launch.dynamic_shared_bytes);
  if (launch.cluster[0] != 0) {
    text += fmt::format(", clusters of {}x{}x{}", launch.cluster[0], launch.cluster[1],
                        launch.cluster[2]);
  }
  if (launch.cooperative) text += ", cooperative";
  return text;
}

constexpr kiln_launch_settings kDefaultSettings{};

ResidencyLimits LimitsOf(const kiln_launch_settings& settings) {
  return {settings.resident_kernels_max, settings.resident_bytes_max};
}

void CallHook(kiln_launch_hook hook, const kiln_launch_settings& settings, const Kernel& kernel,
              const LaunchCall& call, Code code) {
  if (hook == nullptr) return;
  kiln_launch_event event{};
  event.size = sizeof event;
  event.code = static_cast<kiln_launch_code>(code);
  event.kernel = kernel.artifact().metadata().name.c_str();
  event.key = kernel.artifact().id().key.data();
  event.stream = call.stream;
  std::copy(std::begin(call.grid), std::end(call.grid), event.grid);
  hook(settings.hook_user, &event);
}

}  // namespace

Launcher::Launcher(std::unique_ptr<Driver> driver)
    : driver_(std::move(driver)), graphs_(*driver_), settings_(&kDefaultSettings) {}

StatusOr<std::shared_ptr<Kernel>> Launcher::Open(std::shared_ptr<const Artifact> artifact,
                                                 int device) {
  const std::string label = artifact->label();
  std::optional<ScopedContext> scope;
  if (device >= 0) {
    LAUNCH_ASSIGN_OR_RETURN(const Context context, driver_->PrimaryContext(device));
    scope.emplace(*driver_, context);
    LAUNCH_RETURN_IF_ERROR(scope->status());
  }
  return OpenHere(std::move(artifact)).Annotate(label);
}

StatusOr<std::shared_ptr<Kernel>> Launcher::OpenHere(std::shared_ptr<const Artifact> artifact) {
  LAUNCH_ASSIGN_OR_RETURN(const Context context, driver_->CurrentContext());
  if (context == nullptr) {
    return FailedPrecondition(
        "no context is current on this thread: make one current (a framework does it with its "
        "first allocation), or name a device");
  }
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t context_id, driver_->ContextId(context));
  LAUNCH_ASSIGN_OR_RETURN(const DeviceFacts device, driver_->CurrentDevice());
  LAUNCH_ASSIGN_OR_RETURN(LaunchPlan plan,
                          LaunchPlan::Make(artifact->metadata(), driver_->backend(), device));
  const MutexLock lock(mutex_);
  const auto kernels =
      contexts_.try_emplace(context_id, *driver_, context, tick_, LimitsOf(settings())).first;
  return kernels->second.Open(std::move(artifact), std::move(plan));
}

void Launcher::Trim() {
  std::vector<ContextKernels*> all;
  {
    const MutexLock lock(mutex_);
    for (auto& [id, kernels] : contexts_) all.push_back(&kernels);
  }
  for (ContextKernels* kernels : all) kernels->Trim();
}

StatusOr<FunctionFacts> Launcher::FactsOf(Kernel& kernel) {
  return kernel.home().FactsOf(kernel).Annotate(kernel.artifact().label());
}

StatusOr<uint32_t> Launcher::ResidentBlocks(Kernel& kernel, uint32_t threads,
                                            uint32_t dynamic_shared_bytes) {
  const ScopedContext context(*driver_, kernel.context());
  if (!context.status().ok()) return context.status().Annotate(kernel.artifact().label());
  const Kernel::Use use = kernel.home().Find(kernel);
  if (use.function() == nullptr) {
    return FailedPrecondition("it is not loaded: prepare it first")
        .Annotate(kernel.artifact().label());
  }
  return driver_->ResidentBlocks(use.function(), threads, dynamic_shared_bytes)
      .Annotate(kernel.artifact().label());
}

StatusOr<kiln_launch_times> Launcher::TimesOf(Kernel& kernel, bool resets) {
  const ScopedContext context(*driver_, kernel.context());
  if (!context.status().ok()) return context.status().Annotate(kernel.artifact().label());
  return kernel.timer().Read(resets).Annotate(kernel.artifact().label());
}

Status Launcher::Prepare(Kernel& kernel) {
  const StatusOr<Kernel::Use> use = kernel.home().Load(kernel, /*is_capturing=*/false);
  return use.status().Annotate(kernel.artifact().label());
}

// The driver would refuse the wait too, but would also end the capture.
Status Launcher::CheckMayWait(Stream stream, Stream producer) {
  LAUNCH_ASSIGN_OR_RETURN(const bool is_capturing, driver_->IsCapturing(stream));
  LAUNCH_ASSIGN_OR_RETURN(const bool is_produced_under_capture, driver_->IsCapturing(producer));
  if (is_capturing && is_produced_under_capture) {
    LAUNCH_ASSIGN_OR_RETURN(const Capture own, driver_->CaptureOf(stream));
    LAUNCH_ASSIGN_OR_RETURN(const Capture producers, driver_->CaptureOf(producer));
    if (own.id == producers.id) return Status();
  } else if (!is_capturing && (!is_produced_under_capture || !IsLegacyStream(stream))) {
    // A stream that waits for a capturing stream joins the capture.
    return Status();
  }
  return FailedPrecondition(
      "stream {} cannot wait for stream {}: {}, and a graph depends on nothing outside it. Let the "
      "producer's stream join the capture first, or have its work done before the capture begins "
      "and do not wait for it",
      stream, producer,
      is_capturing && is_produced_under_capture ? "both capture, but not the same graph"
      : is_capturing                            ? "it captures, the other one does not"
                                                : "the other one captures, which it never can");
}

Status Launcher::Order(const Kernel& kernel, Stream stream, Stream producer) {
  const auto order = [&]() -> Status {
    const ScopedContext context(*driver_, kernel.context());
    LAUNCH_RETURN_IF_ERROR(context.status());
    const ScopedRelaxedCapture relaxed(*driver_);
    LAUNCH_RETURN_IF_ERROR(CheckMayWait(stream, producer));
    LAUNCH_ASSIGN_OR_RETURN(const Event event, driver_->MakeEvent());
    Status status = driver_->Record(event, producer);
    if (status.ok()) status = driver_->WaitOn(stream, event);
    driver_->DestroyEvent(event);  // the driver does it once the stream has waited
    return status;
  };
  return order().Annotate(kernel.artifact().label());
}

Status Launcher::Fill(const Kernel& kernel, Stream stream, const MemoryRange& range,
                      uint8_t value) {
  if (range.bytes == 0) return Status();
  const ScopedContext context(*driver_, kernel.context());
  Status status = context.status();
  if (status.ok()) status = driver_->FillAsync(range.begin, value, range.bytes, stream);
  return status.Annotate(kernel.artifact().label());
}

Status Launcher::EnqueueObserved(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call,
                                 const kiln_launch_settings& settings, int plain) {
  if (call.IsEmpty()) return Status();
  CallHook(settings.enter_hook, settings, *kernel, call, Code::kOk);
  Status status =
      EnqueueLabelled(kernel, call, settings, plain).Annotate(kernel->artifact().label());
  CallHook(settings.exit_hook, settings, *kernel, call, status.code());
  return status;
}

Status Launcher::EnqueueUnobserved(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call) {
  kiln_launch_settings settings = *settings_.load(std::memory_order_acquire);
  settings.enter_hook = settings.exit_hook = nullptr;
  settings.times_launches = settings.strict = 0;
  return EnqueueWith(kernel, call, settings);
}

Status Launcher::EnqueueLabelled(const std::shared_ptr<Kernel>& kernel, const LaunchCall& call,
                                 const kiln_launch_settings& settings, int plain) {
  LAUNCH_ASSIGN_OR_RETURN(const DriverLaunch launch, kernel->plan().Resolve(call));
  if (plain != Driver::kNotTried) {
    const StatusOr<Context> current = driver_->CurrentContext();
    if (current.ok() && *current == kernel->context()) {
      return driver_->LaunchFailure(plain).Annotate(Describe(launch));
    }
  }
  const ScopedContext context(*driver_, kernel->context());
  LAUNCH_RETURN_IF_ERROR(context.status());
  LAUNCH_ASSIGN_OR_RETURN(const bool is_capturing, driver_->IsCapturing(call.stream));
  if (is_capturing) {
    captured_launches_.fetch_add(1, std::memory_order_relaxed);
    LAUNCH_RETURN_IF_ERROR(graphs_.NoteLaunch(kernel, call));
  }
  return LaunchWithScratch(*kernel, call, launch, settings, is_capturing);
}

Status Launcher::LaunchWithScratch(Kernel& kernel, const LaunchCall& call,
                                   const DriverLaunch& launch, const kiln_launch_settings& settings,
                                   bool is_capturing) {
  const LaunchPlan& plan = kernel.plan();
  const KernelMetadata& metadata = kernel.artifact().metadata();
  // A graph writes to its scratch at each replay, when the caller's allocator has long reused it.
  // Memory that the driver allocates under capture belongs to the graph.
  const kiln_launch_settings& allocator = is_capturing ? kDefaultSettings : settings;
  Scratch global(*driver_, allocator, call.stream);
  Scratch profile(*driver_, allocator, call.stream);
  if (call.global_scratch == 0) {
    LAUNCH_RETURN_IF_ERROR(global.Allocate(plan.ScratchBytes(call, metadata.global_scratch_bytes),
                                           static_cast<uint64_t>(metadata.global_scratch_align)));
  }
  if (call.profile_scratch == 0) {
    LAUNCH_RETURN_IF_ERROR(profile.Allocate(plan.ScratchBytes(call, metadata.profile_scratch_bytes),
                                            static_cast<uint64_t>(metadata.profile_scratch_align)));
  }
  Address hidden[] = {call.global_scratch == 0 ? global.address() : call.global_scratch,
                      call.profile_scratch == 0 ? profile.address() : call.profile_scratch};
  ArgumentList arguments(call.arguments, call.argument_count, hidden,
                         static_cast<size_t>(metadata.hidden_pointers));
  return LaunchTimed(kernel, launch, arguments.data(), settings, is_capturing);
}

Status Launcher::LaunchTimed(Kernel& kernel, const DriverLaunch& launch, void** arguments,
                             const kiln_launch_settings& settings, bool is_capturing) {
  LAUNCH_ASSIGN_OR_RETURN(const Kernel::Use use, UseLoaded(kernel, settings, is_capturing));
  std::optional<KernelTimer::Measurement> measurement;
  // A captured event would become a node of the graph.
  if (settings.times_launches != 0 && !is_capturing)
    measurement.emplace(kernel.timer(), launch.stream);
  const Status status = driver_->Launch(use.function(), launch, arguments);
  if (!status.ok()) return status.Annotate(Describe(launch));
  if (measurement) measurement->End();
  return status;
}

StatusOr<Kernel::Use> Launcher::UseLoaded(Kernel& kernel, const kiln_launch_settings& settings,
                                          bool is_capturing) {
  if (Kernel::Use use(kernel); use.function() != nullptr) {
    NoteUse(kernel, settings);
    return use;
  }
  if (settings.strict != 0) {
    // An eviction that is cancelled hides the function for a moment.
    if (Kernel::Use use = kernel.home().Find(kernel); use.function() != nullptr) {
      NoteUse(kernel, settings);
      return use;
    }
    refused_launches_.fetch_add(1, std::memory_order_relaxed);
    return FailedPrecondition(
        "it is not loaded, and launches must not load (strict): prepare it "
        "in warm-up, and keep the limit of resident kernels above what a "
        "step launches");
  }
  loads_at_launch_.fetch_add(1, std::memory_order_relaxed);
  return kernel.home().Load(kernel, is_capturing);
}

void Launcher::Configure(const kiln_launch_settings& settings) {
  const MutexLock lock(mutex_);
  all_settings_.push_back(std::make_unique<const kiln_launch_settings>(settings));
  settings_.store(all_settings_.back().get(), std::memory_order_release);
  for (auto& [id, kernels] : contexts_) kernels.SetLimits(LimitsOf(settings));
}

kiln_launch_stats Launcher::Stats() const {
  kiln_launch_stats stats{};
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, kernels] : contexts_) kernels.AddTo(stats);
  }
  stats.loads_at_launch = loads_at_launch_.load(std::memory_order_relaxed);
  stats.refused_launches = refused_launches_.load(std::memory_order_relaxed);
  stats.live_graphs = graphs_.live_graphs();
  stats.captured_launches = captured_launches_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace kiln::launch
