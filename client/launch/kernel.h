// An artifact in a context: loaded or not, and who uses it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "client/launch/artifact/artifact.h"
#include "client/launch/driver/driver.h"
#include "client/launch/kernel_timer.h"
#include "client/launch/launch_plan.h"

namespace kiln::launch {

class ContextKernels;

// Shared by everybody who opened the same artifact in the same context. Which kernels are loaded is
// its home's business; launches see it through Use alone, without a lock.
class Kernel {
 public:
  Kernel(ContextKernels& home, std::shared_ptr<const Artifact> artifact, Context context,
         LaunchPlan plan, Driver& driver)
      : home_(home),
        artifact_(std::move(artifact)),
        context_(context),
        plan_(std::move(plan)),
        timer_(driver) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  ContextKernels& home() const { return home_; }
  const Artifact& artifact() const { return *artifact_; }
  Context context() const { return context_; }
  const LaunchPlan& plan() const { return plan_; }
  KernelTimer& timer() { return timer_; }

  // For as long as it lives, the function it has found stays loaded. Null function: not loaded.
  class Use {
   public:
    explicit Use(Kernel& kernel) : kernel_(&kernel) {
      // Both in one total order with Withdraw: either it sees this user, or we see that it is gone.
      kernel.users_.fetch_add(1, std::memory_order_seq_cst);
      function_ = kernel.function_.load(std::memory_order_seq_cst);
    }
    Use(Use&& other) noexcept
        : kernel_(std::exchange(other.kernel_, nullptr)), function_(other.function_) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (kernel_ != nullptr) kernel_->users_.fetch_sub(1, std::memory_order_release);
    }
    Function function() const { return function_; }

   private:
    Kernel* kernel_;
    Function function_;
  };

  // When it was last launched, as a count that only grows.
  void NoteUse(uint64_t tick) { last_use_.store(tick, std::memory_order_relaxed); }
  uint64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }

  // Graphs that launch it: it must stay where it is. GraphRegistry counts them.
  void Pin() { pins_.fetch_add(1); }
  void Unpin() { pins_.fetch_sub(1); }
  bool is_pinned() const { return pins_.load() > 0; }
  bool is_used() const { return users_.load() > 0; }

 private:
  friend class ContextKernels;

  void Publish(Function function) { function_.store(function, std::memory_order_seq_cst); }
  // No launch begins with the function any more, and none that began is still inside the driver; it
  // may have pinned the kernel, though. Returns the function, to be published again then.
  Function Withdraw();

  ContextKernels& home_;
  const std::shared_ptr<const Artifact> artifact_;
  const Context context_;
  const LaunchPlan plan_;
  KernelTimer timer_;

  std::atomic<Function> function_{nullptr};
  std::atomic<uint32_t> users_{0};
  std::atomic<uint64_t> last_use_{0};
  std::atomic<uint32_t> pins_{0};
  // While an eviction has hidden the function and may yet publish it again.
  std::mutex hiding_;

  // Guarded by its home's mutex for moments. The other two are written under the one for loading
  // besides, so its holder reads them without.
  uint32_t references_ = 0;
  Module module_ = nullptr;
  FunctionFacts facts_;
};

}  // namespace kiln::launch
