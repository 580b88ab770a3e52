#include "client/cli/output/told_kernels.h"

#include <fmt/ranges.h>

#include "client/cli/output/format.h"

namespace kiln::cli {
namespace {

constexpr size_t kToldNamesMax = 8;

}  // namespace

void ToldKernels::Add(const std::string& name) {
  ++count_;
  if (names_.size() < kToldNamesMax && !name.empty()) names_.insert(name);
}

void ToldKernels::Tell(Console& console, std::string_view what) const {
  if (count_ == 0) return;
  const bool is_full = names_.size() == kToldNamesMax && count_ > kToldNamesMax;
  const std::string more = is_full ? fmt::format(" and {} more", count_ - kToldNamesMax) : "";
  console.err << fmt::format("{} {}: {}{}\n", FormatCount(count_, "kernel"), what,
                             Printable(fmt::format("{}", fmt::join(names_, ", "))), more);
}

}  // namespace kiln::cli
