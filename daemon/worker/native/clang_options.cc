#include "daemon/worker/native/clang_options.h"

namespace kiln {

const std::vector<CommandOption>& ClangOptions() {
  using Takes = CommandOption::Takes;
  static const auto* const options = new std::vector<CommandOption>{
      {"cl-denorms-are-zero"},
      {"cl-fast-relaxed-math"},
      {"cl-finite-math-only"},
      {"cl-fp32-correctly-rounded-divide-sqrt"},
      {"cl-mad-enable"},
      {"cl-no-signed-zeros"},
      {"cl-opt-disable"},
      {"cl-single-precision-constant"},
      {"cl-std", "", Takes::kWord, 0, 0, {"CL1.0", "CL1.1", "CL1.2", "CL2.0", "CL3.0"}},
      {"cl-strict-aliasing"},
      {"cl-uniform-work-group-size"},
      {"cl-unsafe-math-optimizations"},
      {"define-macro", "", Takes::kMacros},
      {"disable-warnings", "", Takes::kNothing, 0, 0, {}, "no-warnings"},
      {"entry", "", Takes::kName},
      {"undefine-macro", "", Takes::kMacros},
  };
  return *options;
}

}  // namespace kiln
