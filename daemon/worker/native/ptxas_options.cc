#include "daemon/worker/native/ptxas_options.h"

#include <nlohmann/json.hpp>

#include "daemon/worker/native/command_option.h"

namespace kiln {
namespace {

// ptxas takes it, though its --help does not say so, and Triton has given it since 3.7.
constexpr std::string_view kUndocumented = "regAllocOptLevel";

const std::vector<CommandOption>& PtxasOptions() {
  using Takes = CommandOption::Takes;
  static const auto* const options = new std::vector<CommandOption>{
      {"Ofast-compile", Takes::kWord, 0, 0, {"0", "min", "mid", "max"}},
      {"allow-expensive-optimizations", Takes::kTruth},
      {"compile-as-tools-patch"},
      {"compile-only"},
      {"compiler-annotations"},
      {"def-load-cache", Takes::kWord, 0, 0, {"ca", "cg", "cs", "lu", "cv"}},
      {"def-store-cache", Takes::kWord, 0, 0, {"wb", "cg", "cs", "wt"}},
      {"device-debug"},
      {"device-function-maxrregcount", Takes::kNumber, 1, 65'536},
      {"device-stack-protector", Takes::kTruth},
      {"disable-optimizer-constants"},
      {"disable-warnings"},
      {"dont-merge-basicblocks"},
      {"entry", Takes::kName},
      {"extensible-whole-program"},
      {"fmad", Takes::kTruth},
      {"force-load-cache", Takes::kWord, 0, 0, {"ca", "cg", "cs", "lu", "cv"}},
      {"force-store-cache", Takes::kWord, 0, 0, {"wb", "cg", "cs", "wt"}},
      {"g-tensor-memory-access-check"},
      {"generate-line-info"},
      {"gno-tensor-memory-access-check"},
      {"legacy-bar-warp-wide-behavior"},
      {"make-errors-visible-at-exit"},
      {"maxnreg", Takes::kNumber, 1, 65'536, {}, "maxrregcount"},
      {"maxntid", Takes::kNumber, 1, 1024},
      {"minnctapersm", Takes::kNumber, 1, 64},
      {"opt-level", Takes::kNumber, 0, 4},
      {"optimize-float-atomics"},
      {"override-directive-values"},
      {"position-independent-code", Takes::kTruth},
      {"preserve-relocs"},
      {kUndocumented, Takes::kNumber, 0, 4},
      {"register-usage-level", Takes::kNumber, 0, 10},
      {"return-at-end"},
      {"sanitize", Takes::kWord, 0, 0, {"memcheck", "threadsteer"}},
      {"sp-bounds-check"},
      {"suppress-async-bulk-multicast-advisory-warning"},
      {"suppress-debug-info"},
      {"suppress-double-demote-warning"},
      {"suppress-sparse-mma-advisory-info"},
      {"suppress-stack-size-warning"},
      {"warn-on-double-precision-use"},
      {"warn-on-local-memory-usage"},
      {"warn-on-spills"},
      {"warning-as-error"},
  };
  return *options;
}

}  // namespace

nlohmann::json DescribePtxasOptions(std::string_view help) {
  nlohmann::json described = nlohmann::json::object();
  for (const CommandOption& option : PtxasOptions()) {
    const bool is_listed =
        help.find(fmt::format("\n--{} ", option.Argument())) != std::string_view::npos;
    if (is_listed || option.name == kUndocumented) {
      described[std::string(option.name)] = Declare(option);
    }
  }
  return described;
}

absl::StatusOr<std::vector<std::string>> PtxasArguments(const Options& options) {
  return ArgumentsFor(PtxasOptions(), options);
}

}  // namespace kiln
