#include "daemon/worker/native/command_option.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kiln {
namespace {

using Arguments = std::vector<std::string>;

// What an identifier of PTX or C++ may consist of; nothing in it means anything to a command line.
bool IsIdentifier(std::string_view text) {
  constexpr size_t kBytesMax = 1024;
  return !text.empty() && text.size() <= kBytesMax && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '$';
         });
}

std::string Spelled(const CommandOption& option, std::string_view value) {
  return fmt::format("--{}={}", option.Argument(), value);
}

absl::StatusOr<Arguments> FlagArguments(const CommandOption& option, const OptionValue& value) {
  const auto* truth = std::get_if<bool>(&value.value);
  if (truth == nullptr) return InvalidArgument("option '{}' takes true or false", option.name);
  if (option.takes == CommandOption::Takes::kTruth)
    return Arguments{Spelled(option, *truth ? "true" : "false")};
  return *truth ? Arguments{fmt::format("--{}", option.Argument())} : Arguments{};
}

bool IsInRange(const CommandOption& option, const OptionValue& value) {
  const auto* number = std::get_if<int64_t>(&value.value);
  return number != nullptr && *number >= option.min && *number <= option.max;
}

absl::StatusOr<Arguments> NumberArguments(const CommandOption& option, const OptionValue& value) {
  if (IsInRange(option, value)) {
    return Arguments{Spelled(option, fmt::format("{}", std::get<int64_t>(value.value)))};
  }
  return InvalidArgument("option '{}' takes a whole number from {} to {}", option.name, option.min,
                         option.max);
}

absl::StatusOr<Arguments> NumbersArguments(const CommandOption& option, const OptionValue& value) {
  const auto* items = std::get_if<OptionTuple>(&value.value);
  const bool is_right = items != nullptr && !items->empty() &&
                        std::all_of(items->begin(), items->end(), [&](const OptionValue& item) {
                          return IsInRange(option, item);
                        });
  if (!is_right) {
    return InvalidArgument("option '{}' takes a tuple of whole numbers from {} to {}", option.name,
                           option.min, option.max);
  }
  std::vector<int64_t> numbers;
  for (const OptionValue& item : *items) numbers.push_back(std::get<int64_t>(item.value));
  return Arguments{Spelled(option, fmt::format("{}", fmt::join(numbers, ",")))};
}

absl::StatusOr<Arguments> TextArguments(const CommandOption& option, const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value.value);
  if (option.takes == CommandOption::Takes::kName) {
    if (text != nullptr && IsIdentifier(*text)) return Arguments{Spelled(option, *text)};
    return InvalidArgument("option '{}' takes the name of one function", option.name);
  }
  const auto& words = option.words;
  if (text != nullptr && std::find(words.begin(), words.end(), *text) != words.end()) {
    return Arguments{Spelled(option, *text)};
  }
  return InvalidArgument("option '{}' takes one of {}", option.name, fmt::join(words, ", "));
}

// The value behind '=' is C++ and may be anything, as it stands inside one argument.
absl::StatusOr<Arguments> MacroArguments(const CommandOption& option, const OptionValue& value) {
  const auto* items = std::get_if<OptionTuple>(&value.value);
  Arguments arguments;
  for (const OptionValue& item : items == nullptr ? OptionTuple() : *items) {
    const auto* text = std::get_if<std::string>(&item.value);
    if (text == nullptr || !IsIdentifier(std::string_view(*text).substr(0, text->find('='))) ||
        text->find_first_of(std::string_view("\0\n", 2)) != std::string::npos) {
      return InvalidArgument("option '{}' takes NAME or NAME=VALUE", option.name);
    }
    arguments.push_back(Spelled(option, *text));
  }
  if (items != nullptr) return arguments;
  return InvalidArgument("option '{}' takes a tuple of NAME or NAME=VALUE", option.name);
}

absl::StatusOr<Arguments> ArgumentsFor(const CommandOption& option, const OptionValue& value) {
  switch (option.takes) {
    case CommandOption::Takes::kNothing:
    case CommandOption::Takes::kTruth:
      return FlagArguments(option, value);
    case CommandOption::Takes::kNumber:
      return NumberArguments(option, value);
    case CommandOption::Takes::kNumbers:
      return NumbersArguments(option, value);
    case CommandOption::Takes::kWord:
    case CommandOption::Takes::kName:
      return TextArguments(option, value);
    case CommandOption::Takes::kMacros:
      return MacroArguments(option, value);
  }
  return Internal("option '{}' takes nothing that is known", option.name);
}

}  // namespace

nlohmann::json Declare(const CommandOption& option) {
  switch (option.takes) {
    case CommandOption::Takes::kNothing:
      // Not giving a flag is the same as giving it as false.
      return {{"type", "bool"}, {"default", false}};
    case CommandOption::Takes::kTruth:
      return {{"type", "bool"}};
    case CommandOption::Takes::kNumber:
      return {{"type", "integer"}};
    case CommandOption::Takes::kWord:
    case CommandOption::Takes::kName:
      return {{"type", "string"}};
    case CommandOption::Takes::kMacros:
    case CommandOption::Takes::kNumbers:
      return {{"type", "tuple"}};
  }
  return {};
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
