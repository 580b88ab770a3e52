#include "daemon/worker/native/nvrtc_options.h"

namespace kiln {

const std::vector<CommandOption>& NvrtcOptions() {
  using Takes = CommandOption::Takes;
  static const auto* const options = new std::vector<CommandOption>{
      {"Ofast-compile", "", Takes::kWord, 0, 0, {"0", "min", "mid", "max"}},
      {"builtin-initializer-list", "", Takes::kTruth},
      {"builtin-move-forward", "", Takes::kTruth},
      {"define-macro", "", Takes::kMacros},
      {"device-as-default-execution-space"},
      {"device-debug"},
      {"device-float128"},
      {"device-int128"},
      {"device-stack-protector", "", Takes::kTruth},
      {"diag-error", "", Takes::kNumbers, 0, 99'999},
      {"diag-suppress", "", Takes::kNumbers, 0, 99'999},
      {"diag-warn", "", Takes::kNumbers, 0, 99'999},
      {"disable-warnings"},
      {"dlink-time-opt"},
      {"dopt", "", Takes::kWord, 0, 0, {"on"}},
      {"extensible-whole-program"},
      {"extra-device-vectorization"},
      {"fmad", "", Takes::kTruth},
      {"ftz", "", Takes::kTruth},
      {"generate-line-info"},
      {"jump-table-density", "", Takes::kNumber, 0, 101},
      {"maxnreg", "", Takes::kNumber, 1, 65'536, {}, "maxrregcount"},
      {"minimal"},
      {"modify-stack-limit", "", Takes::kTruth},
      {"prec-div", "", Takes::kTruth},
      {"prec-sqrt", "", Takes::kTruth},
      {"relocatable-device-code", "", Takes::kTruth},
      {"restrict"},
      {"std", "", Takes::kWord, 0, 0, {"c++03", "c++11", "c++14", "c++17", "c++20"}},
      {"undefine-macro", "", Takes::kMacros},
      {"use_fast_math"},
  };
  return *options;
}

}  // namespace kiln
