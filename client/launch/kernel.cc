#include "client/launch/kernel.h"

#include <thread>

namespace kiln::launch {

Function Kernel::Withdraw() {
  const Function function = function_.exchange(nullptr, std::memory_order_seq_cst);
  // Microseconds: what a call into the driver takes.
  while (users_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  return function;
}

}  // namespace kiln::launch
