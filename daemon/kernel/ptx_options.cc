#include "daemon/kernel/ptx_options.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kiln {
namespace {

struct Flag {
  std::string_view name;
  std::string_view short_name;
  bool takes_value = false;
};

constexpr std::array kFlags = {
    Flag{"Ofast-compile", "Ofc", true},
    Flag{"allow-expensive-optimizations", "allow-expensive-optimizations", true},
    Flag{"compile-as-tools-patch", "astoolspatch"},
    Flag{"compile-only", "c"},
    Flag{"compiler-annotations", "annotate"},
    Flag{"def-load-cache", "dlcm", true},
    Flag{"def-store-cache", "dscm", true},
    Flag{"device-debug", "g"},
    Flag{"device-function-maxrregcount", "func-maxrregcount", true},
    Flag{"device-stack-protector", "device-stack-protector", true},
    Flag{"disable-optimizer-constants", "disable-optimizer-consts"},
    Flag{"disable-warnings", "w"},
    Flag{"dont-merge-basicblocks", "no-bb-merge"},
    Flag{"entry", "e", true},
    Flag{"extensible-whole-program", "ewp"},
    Flag{"fmad", "fmad", true},
    Flag{"force-load-cache", "flcm", true},
    Flag{"force-store-cache", "fscm", true},
    Flag{"g-tensor-memory-access-check", "g-tmem-access-check"},
    Flag{"generate-line-info", "lineinfo"},
    Flag{"gno-tensor-memory-access-check", "gno-tmem-access-check"},
    Flag{"legacy-bar-warp-wide-behavior", "legacy-bar-warp-wide-behavior"},
    Flag{"make-errors-visible-at-exit", "make-errors-visible-at-exit"},
    Flag{"maxntid", "maxntid", true},
    Flag{"maxrregcount", "maxrregcount", true},
    Flag{"minnctapersm", "minnctapersm", true},
    Flag{"opt-level", "O", true},
    Flag{"optimize-float-atomics", "opt-fp-atomics"},
    Flag{"override-directive-values", "override-directive-values"},
    Flag{"position-independent-code", "pic", true},
    Flag{"preserve-relocs", "preserve-relocs"},
    Flag{"regAllocOptLevel", "regAllocOptLevel", true},
    Flag{"register-usage-level", "regUsageLevel", true},
    Flag{"return-at-end", "ret-end"},
    Flag{"sanitize", "sanitize", true},
    Flag{"sp-bounds-check", "sp-bounds-check"},
    Flag{"suppress-async-bulk-multicast-advisory-warning",
         "suppress-async-bulk-multicast-advisory-warning"},
    Flag{"suppress-debug-info", "suppress-debug-info"},
    Flag{"suppress-double-demote-warning", "suppress-double-demote-warning"},
    Flag{"suppress-sparse-mma-advisory-info", "suppress-sparse-mma-advisory-info"},
    Flag{"suppress-stack-size-warning", "suppress-stack-size-warning"},
    Flag{"verbose", "v"},
    Flag{"warn-on-double-precision-use", "warn-double-usage"},
    Flag{"warn-on-local-memory-usage", "warn-lmem-usage"},
    Flag{"warn-on-spills", "warn-spills"},
    Flag{"warning-as-error", "Werror"},
};

const Flag* FindFlag(std::string_view name) {
  const auto* const found = std::find_if(kFlags.begin(), kFlags.end(), [name](const Flag& flag) {
    return flag.name == name || flag.short_name == name;
  });
  return found == kFlags.end() ? nullptr : found;
}

bool IsPlainValue(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '.' || c == ',';
  });
}

// "-O3", the one flag whose value is written so.
bool IsOptimizationLevel(std::string_view word) {
  return word.size() == 3 && word.substr(0, 2) == "-O" && word[2] >= '0' && word[2] <= '9';
}

absl::Status Refused(std::string_view word) {
  return InvalidArgument(
      "option 'ptx_options' has '{}', which is not one of the flags of ptxas that the daemon "
      "passes "
      "on (docs/toolchains.md); leave it out, or compile locally",
      word);
}

}  // namespace

absl::Status CheckPtxOptions(std::string_view text) {
  bool value_is_due = false;  // the last word was a flag that takes one
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (word.empty() || IsOptimizationLevel(word)) {
      value_is_due = false;
      continue;
    }
    if (word[0] != '-') {
      if (!std::exchange(value_is_due, false) || !IsPlainValue(word)) return Refused(word);
      continue;
    }
    std::string_view name = word.substr(word.substr(0, 2) == "--" ? 2 : 1);
    const size_t equals = name.find('=');
    const bool has_value = equals != std::string_view::npos;
    const Flag* const flag = FindFlag(name.substr(0, equals));
    if (flag == nullptr || (has_value && !flag->takes_value)) return Refused(word);
    if (has_value && !IsPlainValue(name.substr(equals + 1))) return Refused(word);
    value_is_due = flag->takes_value && !has_value;
  }
  return absl::OkStatus();
}

}  // namespace kiln
