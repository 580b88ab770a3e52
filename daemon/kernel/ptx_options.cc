#include "daemon/kernel/ptx_options.h"

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

const CommandOption* FindFlag(std::string_view name) {
  const std::vector<CommandOption>& known = PtxasOptions();
  const auto found = std::find_if(known.begin(), known.end(), [name](const CommandOption& each) {
    return each.Argument() == name || (!name.empty() && each.short_name == name);
  });
  return found == known.end() ? nullptr : &*found;
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
      "passes on (docs/kinds.md); leave it out, or compile locally",
      word);
}

}  // namespace

const std::vector<CommandOption>& PtxasOptions() {
  using Takes = CommandOption::Takes;
  static const auto* const options = new std::vector<CommandOption>{
      {"Ofast-compile", "Ofc", Takes::kWord, 0, 0, {"0", "min", "mid", "max"}},
      {"allow-expensive-optimizations", "", Takes::kTruth},
      {"compile-as-tools-patch", "astoolspatch"},
      {"compile-only", "c"},
      {"compiler-annotations", "annotate"},
      {"def-load-cache", "dlcm", Takes::kWord, 0, 0, {"ca", "cg", "cs", "lu", "cv"}},
      {"def-store-cache", "dscm", Takes::kWord, 0, 0, {"wb", "cg", "cs", "wt"}},
      {"device-debug", "g"},
      {"device-function-maxrregcount", "func-maxrregcount", Takes::kNumber, 1, 65'536},
      {"device-stack-protector", "", Takes::kTruth},
      {"disable-optimizer-constants", "disable-optimizer-consts"},
      {"disable-warnings", "w"},
      {"dont-merge-basicblocks", "no-bb-merge"},
      {"entry", "e", Takes::kName},
      {"extensible-whole-program", "ewp"},
      {"fmad", "", Takes::kTruth},
      {"force-load-cache", "flcm", Takes::kWord, 0, 0, {"ca", "cg", "cs", "lu", "cv"}},
      {"force-store-cache", "fscm", Takes::kWord, 0, 0, {"wb", "cg", "cs", "wt"}},
      {"g-tensor-memory-access-check", "g-tmem-access-check"},
      {"generate-line-info", "lineinfo"},
      {"gno-tensor-memory-access-check", "gno-tmem-access-check"},
      {"legacy-bar-warp-wide-behavior"},
      {"make-errors-visible-at-exit"},
      {"maxnreg", "", Takes::kNumber, 1, 65'536, {}, "maxrregcount"},
      {"maxntid", "", Takes::kNumber, 1, 1024},
      {"minnctapersm", "", Takes::kNumber, 1, 64},
      {"opt-level", "O", Takes::kNumber, 0, 4},
      {"optimize-float-atomics", "opt-fp-atomics"},
      {"override-directive-values"},
      {"position-independent-code", "pic", Takes::kTruth},
      {"preserve-relocs"},
      {"regAllocOptLevel", "", Takes::kNumber, 0, 4},
      {"register-usage-level", "regUsageLevel", Takes::kNumber, 0, 10},
      {"return-at-end", "ret-end"},
      {"sanitize", "", Takes::kWord, 0, 0, {"memcheck", "threadsteer"}},
      {"sp-bounds-check"},
      {"suppress-async-bulk-multicast-advisory-warning"},
      {"suppress-debug-info"},
      {"suppress-double-demote-warning"},
      {"suppress-sparse-mma-advisory-info"},
      {"suppress-stack-size-warning"},
      {"warn-on-double-precision-use", "warn-double-usage"},
      {"warn-on-local-memory-usage", "warn-lmem-usage"},
      {"warn-on-spills", "warn-spills"},
      {"warning-as-error", "Werror"},
  };
  return *options;
}

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
    const CommandOption* const flag = FindFlag(name.substr(0, equals));
    const bool is_verbose = name == "verbose" || name == "v";  // as the worker has it anyway
    const bool takes_value = flag != nullptr && flag->takes != CommandOption::Takes::kNothing;
    if ((flag == nullptr && !is_verbose) || (has_value && !takes_value)) return Refused(word);
    if (has_value && !IsPlainValue(name.substr(equals + 1))) return Refused(word);
    value_is_due = takes_value && !has_value;
  }
  return absl::OkStatus();
}

}  // namespace kiln
