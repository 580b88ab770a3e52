#include "daemon/worker/native_worker/ptxas_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kiln {
namespace {

enum class Takes {
  kNothing,  // a flag: given or not
  kTruth,    // true or false
  kNumber,   // from min to max
  kWord,     // one of `words`
  kName,     // of a function
};

struct PtxasOption {
  std::string_view name;
  Takes takes = Takes::kNothing;
  int64_t min = 0;
  int64_t max = 0;
  std::vector<std::string_view> words = {};
  // ptxas's own name where it is another.
  std::string_view argument = {};
  // ptxas takes it, though its --help does not say so.
  bool is_undocumented = false;

  std::string_view Argument() const { return argument.empty() ? name : argument; }
};

const std::vector<PtxasOption>& PtxasOptions() {
  static const auto* const options = new std::vector<PtxasOption>{
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
      // Triton has given it since 3.7.
      {"regAllocOptLevel", Takes::kNumber, 0, 4, {}, "", /*is_undocumented=*/true},
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

const PtxasOption* FindPtxasOption(std::string_view name) {
  for (const PtxasOption& option : PtxasOptions()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

nlohmann::json DeclarePtxasOption(const PtxasOption& option) {
  switch (option.takes) {
    case Takes::kNothing:
      // Not giving a flag is the same as giving it as false.
      return {{"type", "bool"}, {"default", false}};
    case Takes::kTruth:
      return {{"type", "bool"}};
    case Takes::kNumber:
      return {{"type", "integer"}};
    case Takes::kWord:
    case Takes::kName:
      return {{"type", "string"}};
  }
  return {};
}

// What a PTX identifier may consist of; nothing in it means anything to a command line.
bool IsPtxIdentifier(std::string_view text) {
  constexpr size_t kBytesMax = 1024;
  return !text.empty() && text.size() <= kBytesMax && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '$';
         });
}

absl::StatusOr<std::string> TextOf(const PtxasOption& option, const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value.value);
  if (option.takes == Takes::kName) {
    if (text != nullptr && IsPtxIdentifier(*text)) return *text;
    return InvalidArgument("option '{}' takes the name of one entry function", option.name);
  }
  const auto& words = option.words;
  if (text != nullptr && std::find(words.begin(), words.end(), *text) != words.end()) return *text;
  return InvalidArgument("option '{}' takes one of {}", option.name, fmt::join(words, ", "));
}

absl::StatusOr<std::string> NumberOf(const PtxasOption& option, const OptionValue& value) {
  const auto* number = std::get_if<int64_t>(&value.value);
  if (number != nullptr && *number >= option.min && *number <= option.max) {
    return fmt::format("{}", *number);
  }
  return InvalidArgument("option '{}' takes a whole number from {} to {}", option.name, option.min,
                         option.max);
}

// Nothing for a flag that is false.
absl::StatusOr<std::string> PtxasArgument(const PtxasOption& option, const OptionValue& value) {
  if (option.takes == Takes::kNothing || option.takes == Takes::kTruth) {
    const auto* truth = std::get_if<bool>(&value.value);
    if (truth == nullptr) return InvalidArgument("option '{}' takes true or false", option.name);
    if (option.takes == Takes::kTruth) return fmt::format("--{}={}", option.Argument(), *truth);
    return *truth ? fmt::format("--{}", option.Argument()) : "";
  }
  KILN_ASSIGN_OR_RETURN(const std::string text, option.takes == Takes::kNumber
                                                    ? NumberOf(option, value)
                                                    : TextOf(option, value));
  return fmt::format("--{}={}", option.Argument(), text);
}

}  // namespace

nlohmann::json DescribePtxasOptions(std::string_view help) {
  nlohmann::json described = nlohmann::json::object();
  for (const PtxasOption& option : PtxasOptions()) {
    const bool is_listed =
        help.find(fmt::format("\n--{} ", option.Argument())) != std::string_view::npos;
    if (is_listed || option.is_undocumented) {
      described[std::string(option.name)] = DeclarePtxasOption(option);
    }
  }
  return described;
}

absl::StatusOr<std::vector<std::string>> PtxasArguments(const Options& options) {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : options) {
    const PtxasOption* option = FindPtxasOption(name);
    if (option == nullptr) return InvalidArgument("option '{}' is none that may be given", name);
    KILN_ASSIGN_OR_RETURN(std::string argument, PtxasArgument(*option, value));
    if (!argument.empty()) arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace kiln
