#include "daemon/worker/native/nvrtc_options.h"

namespace kiln {

const std::vector<CommandOption>& NvrtcOptions() {
  static const auto* const options = new std::vector<CommandOption>{
      {"Ofast-compile", "", CommandOption::Takes::kWord, 0, 0, {"0", "min", "mid", "max"}},
      {"builtin-initializer-list", "", CommandOption::Takes::kTruth},
      {"builtin-move-forward", "", CommandOption::Takes::kTruth},
      {"define-macro", "", CommandOption::Takes::kMacros},
      {"device-as-default-execution-space"},
      {"device-debug"},
      {"device-float128"},
      {"device-int128"},
      {"device-stack-protector", "", CommandOption::Takes::kTruth},
      {"diag-error", "", CommandOption::Takes::kNumbers, 0, 99'999},
      {"diag-suppress", "", CommandOption::Takes::kNumbers, 0, 99'999},
      {"diag-warn", "", CommandOption::Takes::kNumbers, 0, 99'999},
      {"disable-warnings"},
      {"dlink-time-opt"},
      {"dopt", "", CommandOption::Takes::kWord, 0, 0, {"on"}},
      {"extensible-whole-program"},
      {"extra-device-vectorization"},
      {"fmad", "", CommandOption::Takes::kTruth},
      {"ftz", "", CommandOption::Takes::kTruth},
      {"generate-line-info"},
      {"jump-table-density", "", CommandOption::Takes::kNumber, 0, 101},
      {"maxnreg", "", CommandOption::Takes::kNumber, 1, 65'536, {}, "maxrregcount"},
      {"minimal"},
      {"modify-stack-limit", "", CommandOption::Takes::kTruth},
      {"prec-div", "", CommandOption::Takes::kTruth},
      {"prec-sqrt", "", CommandOption::Takes::kTruth},
      {"relocatable-device-code", "", CommandOption::Takes::kTruth},
      {"restrict"},
      {"std", "", CommandOption::Takes::kWord, 0, 0, {"c++03", "c++11", "c++14", "c++17", "c++20"}},
      {"undefine-macro", "", CommandOption::Takes::kMacros},
      {"use_fast_math"},
  };
  return *options;
}

}  // namespace kiln
