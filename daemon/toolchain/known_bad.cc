#include "daemon/toolchain/known_bad.h"

#include "daemon/toolchain/version.h"

namespace kiln {
namespace {

struct Row {
  std::string_view name;
  // From the first version up to but not including the second; "" is no bound.
  std::string_view from;
  std::string_view before;
  std::string_view backend;  // "": all of them
  std::string_view reason;
};

constexpr Row kRows[] = {
    {"triton", "", "3.4", "",
     "Triton before 3.4 has no triton.knobs, through which Kiln's worker speaks to it; install 3.5 "
     "or later"},
    {"triton", "3.4", "3.5", "hip",
     "Triton 3.4 links AMD code with an ld.lld of its own vintage, which its wheel does not carry; "
     "install 3.5 or later"},
};

bool Covers(const Row& row, const Version& version) {
  return (row.from.empty() || version.CompareRelease(Version(row.from)) >= 0) &&
         (row.before.empty() || version.CompareRelease(Version(row.before)) < 0);
}

}  // namespace

std::string_view KnownBad(std::string_view name, std::string_view version,
                          std::string_view backend) {
  const Version parsed(version);
  for (const Row& row : kRows) {
    if (row.name == name && row.backend == backend && Covers(row, parsed)) return row.reason;
  }
  return "";
}

}  // namespace kiln
