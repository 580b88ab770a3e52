// Kernels that a command names at its end.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "client/cli/output/console.h"

namespace kiln::cli {

// Holds the names of eight. Not thread-safe.
class ToldKernels {
 public:
  // A kernel without a name is only counted.
  void Add(const std::string& name);
  // Prints "2 kernels WHAT: a, b" to the error output; nothing where there are none.
  void Tell(Console& console, std::string_view what) const;

  uint64_t count() const { return count_; }
  const std::set<std::string>& names() const { return names_; }

 private:
  uint64_t count_ = 0;
  std::set<std::string> names_;
};

}  // namespace kiln::cli
