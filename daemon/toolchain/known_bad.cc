#include "daemon/toolchain/known_bad.h"

#include <array>

namespace kiln {
namespace {

struct Entry {
  std::string_view name;
  std::string_view version_prefix;
  std::string_view backend;  // "": all
  std::string_view reason;
};

constexpr std::array kEntries = {
    Entry{"triton", "2.", "",
          "it is older than 3.3, the first whose intermediate files Kiln can read"},
    Entry{"triton", "3.0.", "",
          "it is older than 3.3, the first whose intermediate files Kiln can read"},
    Entry{"triton", "3.1.", "",
          "it is older than 3.3, the first whose intermediate files Kiln can read"},
    Entry{"triton", "3.2.", "",
          "it is older than 3.3, the first whose intermediate files Kiln can read"},
    // The linker became part of the wheel with 3.5; before, it must be of the same vintage as
    // Triton's own LLVM.
    Entry{"triton", "3.3.", "hip", "it links with an ld.lld that its wheel does not have"},
    Entry{"triton", "3.4.", "hip", "it links with an ld.lld that its wheel does not have"},
};

}  // namespace

std::string_view KnownBad(std::string_view name, std::string_view version,
                          std::string_view backend) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name &&
        version.substr(0, entry.version_prefix.size()) == entry.version_prefix &&
        (entry.backend.empty() || entry.backend == backend)) {
      return entry.reason;
    }
  }
  return "";
}

}  // namespace kiln
