// An artifact in a context, loaded or not, with its users.
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

// One per artifact and context. ContextKernels decides whether it is loaded. Launches see the
// function through Use, without a lock.
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

  // The function stays loaded while this object lives. Null function: not loaded.
  class Use {
   public:
    explicit Use(Kernel& kernel) : kernel_(&kernel) {
      // One total order with Withdraw: either Withdraw sees this user, or the function is null
      // here.
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

  // The tick of the last launch.
  void NoteUse(uint64_t tick) { last_use_.store(tick, std::memory_order_relaxed); }
  uint64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }

  // The number of graphs that launch the kernel, kept by GraphRegistry. A pinned kernel stays
  // loaded.
  void Pin() { pins_.fetch_add(1); }
  void Unpin() { pins_.fetch_sub(1); }
  bool is_pinned() const { return pins_.load() > 0; }
  bool is_used() const { return users_.load() > 0; }

 private:
  friend class ContextKernels;

  void Publish(Function function) { function_.store(function, std::memory_order_seq_cst); }

  ContextKernels& home_;
  const std::shared_ptr<const Artifact> artifact_;
  const Context context_;
  const LaunchPlan plan_;
  KernelTimer timer_;

  std::atomic<Function> function_{nullptr};
  std::atomic<uint32_t> users_{0};
  std::atomic<uint64_t> last_use_{0};
  std::atomic<uint32_t> pins_{0};
  // Held while an eviction has hidden the function and may publish it again.
  std::mutex hiding_;

  // Guarded by home_.mutex_. module_ and facts_ are written with home_.loading_ held too, so a
  // holder of loading_ reads them without mutex_.
  uint32_t references_ = 0;
  Module module_ = nullptr;
  FunctionFacts facts_;
};

}  // namespace kiln::launch
