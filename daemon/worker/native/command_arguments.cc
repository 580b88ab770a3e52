#include "daemon/worker/native/command_arguments.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kiln {
namespace {

using Arguments = std::vector<std::string>;
using Takes = CommandOption::Takes;

// What an identifier of PTX or C++ may consist of; nothing in it means anything to a command line.
bool IsIdentifier(std::string_view text) {
  constexpr size_t kBytesMax = 1024;
  return !text.empty() && text.size() <= kBytesMax && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '$';
         });
}

// The value behind '=' is C++ and may be anything, as it stands inside one argument.
bool IsMacro(std::string_view text) {
  return IsIdentifier(text.substr(0, text.find('='))) &&
         text.find_first_of(std::string_view("\0\n", 2)) == std::string_view::npos;
}

bool TakesTuple(const CommandOption& option) {
  return option.takes == Takes::kMacros || option.takes == Takes::kNumbers;
}

// What the option takes, for people.
std::string Wanted(const CommandOption& option) {
  switch (option.takes) {
    case Takes::kNothing:
    case Takes::kTruth:
      return "true or false";
    case Takes::kNumber:
      return fmt::format("a whole number from {} to {}", option.min, option.max);
    case Takes::kNumbers:
      return fmt::format("a tuple of whole numbers from {} to {}", option.min, option.max);
    case Takes::kWord:
      return fmt::format("one of {}", fmt::join(option.words, ", "));
    case Takes::kName:
      return "the name of one function";
    case Takes::kMacros:
      return "a tuple of NAME or NAME=VALUE";
  }
  return "nothing that is known";
}

// One value, or one of a tuple's, as it stands on the command line; nothing where the option does
// not take it.
std::optional<std::string> Spelled(const CommandOption& option, const OptionValue& value) {
  const Takes takes = option.takes;
  if (const auto* truth = std::get_if<bool>(&value.value)) {
    if (takes != Takes::kNothing && takes != Takes::kTruth) return std::nullopt;
    return *truth ? "true" : "false";
  }
  if (const auto* number = std::get_if<int64_t>(&value.value)) {
    if (takes != Takes::kNumber && takes != Takes::kNumbers) return std::nullopt;
    if (*number < option.min || *number > option.max) return std::nullopt;
    return fmt::format("{}", *number);
  }
  const auto* text = std::get_if<std::string>(&value.value);
  if (text == nullptr) return std::nullopt;
  const auto& words = option.words;
  const bool is_taken =
      (takes == Takes::kWord && std::find(words.begin(), words.end(), *text) != words.end()) ||
      (takes == Takes::kName && IsIdentifier(*text)) || (takes == Takes::kMacros && IsMacro(*text));
  return is_taken ? std::optional(*text) : std::nullopt;
}

absl::StatusOr<Arguments> ArgumentsFor(const CommandOption& option, const OptionValue& value) {
  const absl::Status refused = InvalidArgument("option '{}' takes {}", option.name, Wanted(option));
  const auto* tuple = std::get_if<OptionTuple>(&value.value);
  if (TakesTuple(option) != (tuple != nullptr)) return refused;
  Arguments spelled;
  for (const OptionValue& each : tuple != nullptr ? *tuple : OptionTuple{value}) {
    std::optional<std::string> one = Spelled(option, each);
    if (!one) return refused;
    spelled.push_back(*std::move(one));
  }
  if (option.takes == Takes::kNothing) {
    return spelled[0] == "true" ? Arguments{fmt::format("--{}", option.Argument())} : Arguments();
  }
  if (option.takes == Takes::kNumbers) {
    if (spelled.empty()) return refused;
    spelled = {fmt::format("{}", fmt::join(spelled, ","))};
  }
  for (std::string& each : spelled) each = fmt::format("--{}={}", option.Argument(), each);
  return spelled;
}

}  // namespace

nlohmann::json Declare(const CommandOption& option) {
  // Not giving a flag is the same as giving it as false.
  if (option.takes == Takes::kNothing) return {{"type", "bool"}, {"default", false}};
  const char* type = option.takes == Takes::kTruth    ? "bool"
                     : option.takes == Takes::kNumber ? "integer"
                     : TakesTuple(option)             ? "tuple"
                                                      : "string";
  return {{"type", type}};
}

absl::StatusOr<std::vector<std::string>> ArgumentsFor(const std::vector<CommandOption>& known,
                                                      const Options& options) {
  Arguments arguments;
  for (const auto& given : options) {
    const auto option = std::find_if(known.begin(), known.end(), [&](const CommandOption& each) {
      return each.name == given.first;
    });
    if (option == known.end()) {
      return InvalidArgument("option '{}' may not be given", given.first);
    }
    KILN_ASSIGN_OR_RETURN(Arguments more, ArgumentsFor(*option, given.second));
    std::move(more.begin(), more.end(), std::back_inserter(arguments));
  }
  return arguments;
}

}  // namespace kiln
