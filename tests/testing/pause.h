// For loops that wait for what tells nobody when it changes.
#pragma once

#include <chrono>
#include <thread>

namespace kiln {

// Stands between two looks. A loop that only yields takes a processor from the tests beside it.
inline void Pause(std::chrono::milliseconds duration = std::chrono::milliseconds(1)) {
  std::this_thread::sleep_for(duration);
}

}  // namespace kiln
