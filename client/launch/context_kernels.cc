#include "client/launch/context_kernels.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace kiln::launch {

std::shared_ptr<Kernel> ContextKernels::Open(std::shared_ptr<const Artifact> artifact,
                                             LaunchPlan plan) {
  const ArtifactId id = artifact->id();
  const MutexLock lock(mutex_);
  auto place = kernels_.find(id);
  if (place == kernels_.end()) {
    place = kernels_
                .emplace(id, std::make_shared<Kernel>(*this, std::move(artifact), context_,
                                                      std::move(plan), driver_))
                .first;
  }
  ++place->second->references_;
  return place->second;
}

void ContextKernels::Close(Kernel& kernel) {
  bool is_to_be_unloaded = false;
  {
    const MutexLock lock(mutex_);
    if (--kernel.references_ > 0) return;
    is_to_be_unloaded = IsToBeUnloaded(kernel);
  }
  if (const auto loading = LockLoading(is_to_be_unloaded)) DropUnreferenced();
}

bool ContextKernels::IsToBeUnloaded(const Kernel& kernel) {
  return kernel.references_ == 0 && kernel.module_ != nullptr && !kernel.is_pinned();
}

std::unique_lock<std::mutex> ContextKernels::LockLoading(bool waits) {
  return waits ? std::unique_lock(loading_) : std::unique_lock(loading_, std::try_to_lock);
}

StatusOr<Kernel::Use> ContextKernels::Load(Kernel& kernel, bool is_capturing) {
  if (Kernel::Use use = Find(kernel); use.function() != nullptr) {
    kernel.NoteUse(++tick_);
    return use;
  }
  const std::lock_guard loading(loading_);
  if (kernel.module_ == nullptr) LAUNCH_RETURN_IF_ERROR(LoadNow(kernel, is_capturing));
  kernel.NoteUse(++tick_);
  // Made while loading_ is held, so that nothing evicts the kernel first.
  return Kernel::Use(kernel);
}

Kernel::Use ContextKernels::Find(Kernel& kernel) {
  const std::lock_guard hiding(kernel.hiding_);
  return Kernel::Use(kernel);
}

Status ContextKernels::LoadNow(Kernel& kernel, bool is_capturing) {
  const Artifact& artifact = kernel.artifact();
  if (!is_capturing) {
    DropUnreferenced();
    MakeRoom(1, artifact.binary().size());
  } else if (IsOver(1, artifact.binary().size())) {
    const MutexLock lock(mutex_);
    ++stats_.unloads_put_off;
  }
  const ScopedContext context(driver_, context_);
  LAUNCH_RETURN_IF_ERROR(context.status());
  const ScopedRelaxedCapture relaxed(driver_);
  LAUNCH_ASSIGN_OR_RETURN(const LoadedCode code, LoadOrMakeRoom(artifact, is_capturing));
  Status status = Adopt(kernel, code);
  if (!status.ok()) static_cast<void>(driver_.Unload(code.module));
  return status;
}

// Evicts as few kernels as possible: an evicted kernel is loaded again at its next launch, which
// fails in strict mode.
StatusOr<LoadedCode> ContextKernels::LoadOrMakeRoom(const Artifact& artifact, bool is_capturing) {
  const auto load = [&] { return driver_.Load(artifact.binary(), artifact.metadata()); };
  StatusOr<LoadedCode> code = load();
  if (code.status().code() != Code::kResourceExhausted || is_capturing) return code;
  {
    const MutexLock lock(mutex_);
    ++stats_.out_of_memory_loads;
  }
  while (code.status().code() == Code::kResourceExhausted && EvictOldest()) code = load();
  return code;
}

Status ContextKernels::Adopt(Kernel& kernel, const LoadedCode& code) {
  const LaunchPlan& plan = kernel.plan();
  LAUNCH_ASSIGN_OR_RETURN(FunctionFacts facts, driver_.Describe(code.function));
  LAUNCH_RETURN_IF_ERROR(plan.CheckFunction(facts));
  if (const int bytes = plan.SharedBytesToAllow(facts); bytes > 0) {
    LAUNCH_RETURN_IF_ERROR(driver_.AllowSharedBytes(code.function, bytes));
  }
  if (plan.PrefersSharedMemory()) {
    LAUNCH_RETURN_IF_ERROR(driver_.PreferSharedMemory(code.function));
  }
  if (plan.NeedsLargeClusters()) {
    LAUNCH_RETURN_IF_ERROR(driver_.AllowLargeClusters(code.function));
  }
  const MutexLock lock(mutex_);
  kernel.module_ = code.module;
  kernel.facts_ = std::move(facts);
  ++stats_.loads;
  ++stats_.kernels_resident;
  stats_.resident_bytes += kernel.artifact().binary().size();
  kernel.Publish(code.function);
  return Status();
}

Function ContextKernels::Withdraw(Kernel& kernel) {
  constexpr int kYieldsMax = 100;
  constexpr std::chrono::microseconds kLongestNap(1000);
  const Function function = kernel.function_.exchange(nullptr, std::memory_order_seq_cst);
  // Mostly takes microseconds. A launch may also wait in the driver while its stream's queue is
  // full; then this thread sleeps to leave the core to others.
  std::chrono::microseconds nap(50);
  for (int yields = 0; kernel.users_.load(std::memory_order_seq_cst) != 0; ++yields) {
    if (yields < kYieldsMax) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min(2 * nap, kLongestNap);
    }
  }
  return function;
}

bool ContextKernels::TryUnload(Kernel& kernel) {
  const ScopedContext context(driver_, context_);
  const ScopedRelaxedCapture relaxed(driver_);
  {
    const std::lock_guard hiding(kernel.hiding_);
    const Function function = Withdraw(kernel);
    // A captured launch pins the kernel before it uses the function. A launch that used the
    // function before Withdraw has pinned it by now; a later one finds no function and waits.
    if (kernel.is_pinned()) {
      kernel.Publish(function);
      return false;
    }
  }
  // A failure leaks the module.
  static_cast<void>(driver_.Unload(kernel.module_));
  const MutexLock lock(mutex_);
  kernel.module_ = nullptr;
  ++stats_.unloads;
  --stats_.kernels_resident;
  stats_.resident_bytes -= kernel.artifact().binary().size();
  return true;
}

void ContextKernels::DropUnreferenced() {
  MutexLock lock(mutex_);
  for (auto place = kernels_.begin(); place != kernels_.end();) {
    const std::shared_ptr<Kernel> kernel = place->second;
    if (kernel->references_ > 0) {
      ++place;
      continue;
    }
    // Only the holder of loading_ removes kernels, so `place` stays valid.
    lock.Unlock();
    const bool is_unloaded =
        kernel->module_ == nullptr || (!kernel->is_pinned() && TryUnload(*kernel));
    lock.Lock();
    if (!is_unloaded) ++stats_.unloads_put_off;
    if (!is_unloaded || kernel->references_ > 0) {  // opened again by now
      ++place;
      continue;
    }
    place = kernels_.erase(place);
    lock.Unlock();
    kernel->timer().Release(context_);
    lock.Lock();
  }
}

bool ContextKernels::IsOver(uint64_t more_kernels, uint64_t more_bytes) const {
  const MutexLock lock(mutex_);
  return (limits_.kernels_max > 0 &&
          stats_.kernels_resident + more_kernels > limits_.kernels_max) ||
         (limits_.bytes_max > 0 && stats_.resident_bytes + more_bytes > limits_.bytes_max);
}

// Stops when nothing may be evicted: a limit never fails a launch.
void ContextKernels::MakeRoom(uint64_t more_kernels, uint64_t more_bytes) {
  while (IsOver(more_kernels, more_bytes) && EvictOldest()) {
  }
}

// Kernels in use come last: a launch waits in the driver while its stream's queue is full, and
// notes its use only afterwards.
bool ContextKernels::IsEarlier(const Kernel& one, const Kernel& other) {
  return std::pair(one.is_used(), one.last_use()) < std::pair(other.is_used(), other.last_use());
}

Kernel* ContextKernels::OldestToEvict() const {
  const MutexLock lock(mutex_);
  Kernel* oldest = nullptr;
  for (const auto& [id, kernel] : kernels_) {
    if (kernel->module_ == nullptr || kernel->is_pinned()) continue;
    if (oldest == nullptr || IsEarlier(*kernel, *oldest)) oldest = kernel.get();
  }
  return oldest;
}

bool ContextKernels::EvictOldest() {
  while (Kernel* oldest = OldestToEvict()) {
    // On failure the kernel is pinned, so the next turn finds another one.
    if (!TryUnload(*oldest)) continue;
    const MutexLock lock(mutex_);
    ++stats_.evictions;
    return true;
  }
  return false;
}

void ContextKernels::Trim() {
  if (const auto loading = LockLoading(HasSomethingToUnload())) {
    DropUnreferenced();
    MakeRoom(0, 0);
  }
}

bool ContextKernels::HasSomethingToUnload() const {
  if (IsOver(0, 0) && OldestToEvict() != nullptr) return true;
  const MutexLock lock(mutex_);
  return std::any_of(kernels_.begin(), kernels_.end(),
                     [](const auto& entry) { return IsToBeUnloaded(*entry.second); });
}

void ContextKernels::SetLimits(const ResidencyLimits& limits) {
  const MutexLock lock(mutex_);
  limits_ = limits;
}

StatusOr<FunctionFacts> ContextKernels::FactsOf(const Kernel& kernel) const {
  const MutexLock lock(mutex_);
  if (kernel.module_ == nullptr) return FailedPrecondition("it is not loaded: prepare it first");
  return kernel.facts_;
}

void ContextKernels::AddTo(kiln_launch_stats& sum) const {
  const MutexLock lock(mutex_);
  for (const auto& [id, kernel] : kernels_) sum.kernels_open += kernel->references_ > 0 ? 1 : 0;
  for (const auto counter :
       {&kiln_launch_stats::kernels_resident, &kiln_launch_stats::resident_bytes,
        &kiln_launch_stats::loads, &kiln_launch_stats::unloads, &kiln_launch_stats::evictions,
        &kiln_launch_stats::unloads_put_off, &kiln_launch_stats::out_of_memory_loads}) {
    sum.*counter += stats_.*counter;
  }
}

}  // namespace kiln::launch
