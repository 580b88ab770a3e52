#include "client/launch/resident_kernels.h"

#include <new>

namespace kiln::launch {
namespace {

constexpr const char* kNoContext =
    "no context is current on this thread: make one current (a framework does it with its first "
    "allocation), or name a device";

}  // namespace

StatusOr<std::shared_ptr<Kernel>> ResidentKernels::Open(std::shared_ptr<const Artifact> artifact) {
  LAUNCH_ASSIGN_OR_RETURN(const Context context, driver_.CurrentContext());
  if (context == nullptr) return FailedPrecondition("{}", kNoContext);
  LAUNCH_ASSIGN_OR_RETURN(const uint64_t context_id, driver_.ContextId(context));
  LAUNCH_ASSIGN_OR_RETURN(const DeviceFacts device, driver_.CurrentDevice());
  LAUNCH_ASSIGN_OR_RETURN(LaunchPlan plan,
                          LaunchPlan::Make(artifact->metadata(), driver_.backend(), device));
  const Id id{context_id, artifact->id()};
  const std::lock_guard lock(mutex_);
  auto place = kernels_.find(id);
  if (place == kernels_.end()) {
    // Made first: an entry without a kernel, where there is no memory for one, would crash others.
    auto made = std::make_shared<Kernel>(std::move(artifact), context, std::move(plan), driver_);
    place = kernels_.emplace(id, std::move(made)).first;
  }
  ++place->second->references_;
  return place->second;
}

void ResidentKernels::Close(Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  if (--kernel.references_ == 0) DropUnreferenced();
}

StatusOr<Kernel::Use> ResidentKernels::Load(Kernel& kernel, bool is_capturing) {
  const std::lock_guard lock(mutex_);
  if (kernel.module_ == nullptr) LAUNCH_RETURN_IF_ERROR(LoadNow(kernel, is_capturing));
  kernel.NoteUse(NextTick());
  // Under the mutex, so that nobody evicts it in between.
  return Kernel::Use(kernel);
}

Kernel::Use ResidentKernels::Find(Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  return Kernel::Use(kernel);
}

Status ResidentKernels::LoadNow(Kernel& kernel, bool is_capturing) {
  const Artifact& artifact = kernel.artifact();
  if (!is_capturing) {
    DropUnreferenced();
    MakeRoom(kernel, 1, artifact.binary().size());
  } else if (IsOver(1, artifact.binary().size())) {
    ++stats_.unloads_put_off;
  }
  const ScopedContext context(driver_, kernel.context());
  LAUNCH_RETURN_IF_ERROR(context.status());
  const ScopedRelaxedCapture relaxed(driver_);
  StatusOr<LoadedCode> code = driver_.Load(artifact.binary(), artifact.metadata().name);
  if (code.status().code() == Code::kResourceExhausted && !is_capturing) {
    // What else is loaded makes room; who needs it loads it again.
    ++stats_.out_of_memory_loads;
    while (EvictOldest(&kernel)) {
    }
    code = driver_.Load(artifact.binary(), artifact.metadata().name);
  }
  LAUNCH_RETURN_IF_ERROR(code.status());
  // Also where there is no memory for what the driver says of it.
  const auto unload = [this](Module module) noexcept { UnloadAsItCan(module); };
  std::unique_ptr<void, decltype(unload)> not_adopted(code->module, unload);
  LAUNCH_RETURN_IF_ERROR(Adopt(kernel, *code));
  static_cast<void>(not_adopted.release());
  return Status();
}

Status ResidentKernels::Adopt(Kernel& kernel, const LoadedCode& code) {
  const LaunchPlan& plan = kernel.plan();
  LAUNCH_ASSIGN_OR_RETURN(kernel.facts_, driver_.Describe(code.function));
  LAUNCH_RETURN_IF_ERROR(plan.CheckFunction(kernel.facts_));
  if (const int bytes = plan.SharedBytesToAllow(kernel.facts_); bytes > 0) {
    LAUNCH_RETURN_IF_ERROR(driver_.AllowSharedBytes(code.function, bytes));
  }
  if (plan.PrefersSharedMemory()) {
    LAUNCH_RETURN_IF_ERROR(driver_.PreferSharedMemory(code.function));
  }
  if (plan.NeedsLargeClusters()) {
    LAUNCH_RETURN_IF_ERROR(driver_.AllowLargeClusters(code.function));
  }
  kernel.module_ = code.module;
  ++stats_.loads;
  ++stats_.resident;
  stats_.resident_bytes += kernel.artifact().binary().size();
  kernel.Publish(code.function);
  return Status();
}

// Where it fails the module stays loaded, which is a leak and no more.
void ResidentKernels::UnloadAsItCan(Module module) noexcept {
  try {
    static_cast<void>(driver_.Unload(module));
  } catch (const std::bad_alloc&) {  // for the words of a failure
  }
}

bool ResidentKernels::TryUnload(Kernel& kernel) {
  const Function function = kernel.Withdraw();
  // A captured launch pins before it uses. One that used the function before it was withdrawn shows
  // here; one that comes later finds none and has to wait for us.
  if (kernel.is_pinned()) {
    kernel.Publish(function);
    return false;
  }
  const ScopedContext context(driver_, kernel.context());
  const ScopedRelaxedCapture relaxed(driver_);
  if (kernel.references_ == 0) kernel.timer().Release();
  UnloadAsItCan(kernel.module_);
  kernel.module_ = nullptr;
  ++stats_.unloads;
  --stats_.resident;
  stats_.resident_bytes -= kernel.artifact().binary().size();
  return true;
}

void ResidentKernels::DropUnreferenced() {
  for (auto place = kernels_.begin(); place != kernels_.end();) {
    Kernel& kernel = *place->second;
    if (kernel.references_ > 0) {
      ++place;
    } else if (kernel.module_ == nullptr || (!kernel.is_pinned() && TryUnload(kernel))) {
      place = kernels_.erase(place);
    } else {
      ++stats_.unloads_put_off;
      ++place;
    }
  }
}

bool ResidentKernels::IsOver(uint64_t more_kernels, uint64_t more_bytes) const {
  return (limits_.kernels_max > 0 && stats_.resident + more_kernels > limits_.kernels_max) ||
         (limits_.bytes_max > 0 && stats_.resident_bytes + more_bytes > limits_.bytes_max);
}

// As far as that is possible: a limit never fails a launch.
void ResidentKernels::MakeRoom(const Kernel& keep, uint64_t more_kernels, uint64_t more_bytes) {
  while (IsOver(more_kernels, more_bytes) && EvictOldest(&keep)) {
  }
}

Kernel* ResidentKernels::OldestToEvict(const Kernel* keep) {
  Kernel* oldest = nullptr;
  for (const auto& [id, kernel] : kernels_) {
    if (kernel->module_ == nullptr || kernel.get() == keep || kernel->is_pinned()) continue;
    if (oldest == nullptr || kernel->last_use() < oldest->last_use()) oldest = kernel.get();
  }
  return oldest;
}

bool ResidentKernels::EvictOldest(const Kernel* keep) {
  while (Kernel* oldest = OldestToEvict(keep)) {
    // Where it fails the kernel is pinned by now, so the next one is another.
    if (!TryUnload(*oldest)) continue;
    ++stats_.evictions;
    return true;
  }
  return false;
}

void ResidentKernels::Trim() {
  const std::lock_guard lock(mutex_);
  DropUnreferenced();
  while (IsOver(0, 0) && EvictOldest(nullptr)) {
  }
}

void ResidentKernels::SetLimits(const ResidencyLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

StatusOr<FunctionFacts> ResidentKernels::FactsOf(Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  if (kernel.module_ == nullptr) return FailedPrecondition("it is not loaded: prepare it first");
  return kernel.facts_;
}

ResidencyStats ResidentKernels::Stats() const {
  const std::lock_guard lock(mutex_);
  ResidencyStats stats = stats_;
  for (const auto& [id, kernel] : kernels_) stats.open += kernel->references_ > 0 ? 1 : 0;
  return stats;
}

}  // namespace kiln::launch
