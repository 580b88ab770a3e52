#include "client/cli/output/ticker.h"

#include <utility>

namespace kiln::cli {

Ticker::Ticker(std::chrono::milliseconds interval, std::function<void()> tick)
    : thread_([this, interval, tick = std::move(tick)] {
        MutexLock lock(mutex_);
        const auto is_over = [this]() KILN_REQUIRES(mutex_) { return is_over_; };
        while (!changed_.WaitFor(mutex_, interval, is_over)) {
          lock.Unlock();
          tick();
          lock.Lock();
        }
      }) {}

Ticker::~Ticker() {
  {
    const MutexLock lock(mutex_);
    is_over_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

}  // namespace kiln::cli
