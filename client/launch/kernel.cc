#include "client/launch/kernel.h"

#include <thread>

namespace kiln::launch {

void Kernel::Withdraw() {
  Publish(nullptr);
  // Microseconds: what a call into the driver takes.
  while (users_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

}  // namespace kiln::launch
