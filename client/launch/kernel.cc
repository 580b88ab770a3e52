#include "client/launch/kernel.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace kiln::launch {
namespace {

constexpr int kYieldsMax = 100;
constexpr std::chrono::microseconds kFirstNap(50);
constexpr std::chrono::microseconds kLongestNap(1000);

}  // namespace

Function Kernel::Withdraw() {
  const Function function = function_.exchange(nullptr, std::memory_order_seq_cst);
  // Mostly takes microseconds. A launch may also wait in the driver while its stream's queue is
  // full; then this thread sleeps to leave the core to others.
  auto nap = kFirstNap;
  for (int yields = 0; users_.load(std::memory_order_seq_cst) != 0; ++yields) {
    if (yields < kYieldsMax) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min(2 * nap, kLongestNap);
    }
  }
  return function;
}

}  // namespace kiln::launch
