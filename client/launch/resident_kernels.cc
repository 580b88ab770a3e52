#include "client/launch/resident_kernels.h"

#include <vector>

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
  return KernelsOf(context_id, context).Open(std::move(artifact), std::move(plan));
}

ContextKernels& ResidentKernels::KernelsOf(uint64_t context_id, Context context) {
  const std::lock_guard lock(mutex_);
  return contexts_.try_emplace(context_id, driver_, context, tick_, limits_).first->second;
}

void ResidentKernels::Trim() {
  std::vector<ContextKernels*> all;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, kernels] : contexts_) all.push_back(&kernels);
  }
  for (ContextKernels* kernels : all) kernels->Trim();
}

void ResidentKernels::SetLimits(const ResidencyLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  for (auto& [id, kernels] : contexts_) kernels.SetLimits(limits);
}

void ResidentKernels::AddTo(kiln_launch_stats& sum) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, kernels] : contexts_) kernels.AddTo(sum);
}

}  // namespace kiln::launch
