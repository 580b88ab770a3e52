// An executor without threads.
#pragma once

#include <functional>

#include "storage/base/executor.h"

namespace kiln {

// Runs everything at once on the caller's thread.
class InlineExecutor final : public Executor {
 public:
  void Run(std::function<void()> work) override { work(); }
};

}  // namespace kiln
