#include "client/cli/commands/command_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "client/cli/commands/errors.h"
#include "client/cli/output/console.h"
#include "storage/base/did_you_mean.h"

namespace kiln::cli {
namespace {

std::string CheckPath(const std::string& text) {
  return text.empty() ? "is empty; name a path, or leave it out" : "";
}

template <typename Value>
CLI::Option& AddOption(CLI::App& app, const std::string& names, Value& value,
                       const std::string& help, const ArgumentTraits& traits) {
  CLI::Option& option = *app.add_option(names, value, help);
  if (!traits.value_name.empty()) option.type_name(traits.value_name);
  option.required(traits.is_required);
  option.delimiter(traits.separator);
  if (traits.is_path) option.check(CheckPath);
  return option;
}

// What is wrong with a whole number's text; "" where nothing is. CLI11's own conversion says less.
template <typename Number>
std::string CheckWhole(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end) return "";
  return fmt::format("'{}' is not a whole number from 0 to {}", text,
                     std::numeric_limits<Number>::max());
}

std::string CheckSeconds(const std::string& text) {
  double value = 0;
  if (CLI::detail::lexical_cast(text, value) && value > 0 && std::isfinite(value)) return "";
  return fmt::format("'{}' is not a number of seconds above 0", text);
}

// What is wrong, and what helps.
struct UsageError {
  std::string what;
  std::string why;
  std::string advice;
};

std::string HelpOf(const CLI::App* command) {
  return command == nullptr ? "'kiln --help'"
                            : fmt::format("'kiln {} --help'", command->get_name());
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "" where every word was an option's value.
std::string ValueThatIsACommand(const CLI::App& app) {
  const std::vector<std::string> commands = CommandNames(app);
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (std::find(commands.begin(), commands.end(), value) == commands.end()) continue;
      return fmt::format("; {} took '{}' as its value", option->get_name(), value);
    }
  }
  return "";
}

// A word that is no command, no option and no argument of `command`, which is null where none was
// given; or no word at all.
UsageError UnknownWord(const CLI::App& app, const CLI::App* command) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty()) {
    return {"usage", "say what to do" + ValueThatIsACommand(app), "'kiln --help', which lists it"};
  }
  const std::string& word = unknown.front();
  if (word.starts_with('-')) {
    std::vector<std::string> known = OptionNames(app);
    if (command != nullptr) {
      for (std::string& name : OptionNames(*command)) known.push_back(std::move(name));
    }
    const std::string name = word.substr(0, word.find('='));
    return {command == nullptr ? "usage" : command->get_name(),
            fmt::format("there is no option {}{}", name, DidYouMean(name, known)), HelpOf(command)};
  }
  if (command == nullptr) {
    return {word, "there is no such command" + DidYouMean(word, CommandNames(app)),
            "'kiln --help', which lists them"};
  }
  return {command->get_name(), fmt::format("'{}' is one argument too many", word), HelpOf(command)};
}

bool Is(const CLI::ParseError& error, CLI::ExitCodes code) {
  return error.get_exit_code() == static_cast<int>(code);
}

// CLI11's words name the argument in front of a colon, or first.
UsageError WrongValue(const CLI::ParseError& error, const CLI::App* command) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find_first_of(": "));
  if (Is(error, CLI::ExitCodes::ArgumentMismatch)) {
    const bool is_too_many =
        text.find("at most") != std::string::npos || text.find("At Most") != std::string::npos;
    return {name, is_too_many ? "give it only once" : "give it a value", HelpOf(command)};
  }
  if (Is(error, CLI::ExitCodes::RequiredError)) return {name, "is missing", HelpOf(command)};
  const size_t colon = text.find(": ");
  if (colon == std::string::npos) return {"usage", text, HelpOf(command)};
  return {text.substr(0, colon), text.substr(colon + 2), HelpOf(command)};
}

UsageError Explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  const CLI::App* command = commands.empty() ? nullptr : commands.front();
  const bool is_about_a_value =
      Is(error, CLI::ExitCodes::ArgumentMismatch) || Is(error, CLI::ExitCodes::ValidationError);
  const bool has_too_much = Is(error, CLI::ExitCodes::ExtrasError);
  if (has_too_much || (command == nullptr && !is_about_a_value)) return UnknownWord(app, command);
  return WrongValue(error, command);
}

// "help", "help ls": as people ask who know git.
std::vector<std::string> WithHelpFlag(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
  return arguments;
}

}  // namespace

void Arguments::Add(const std::string& names, std::string& value, const std::string& help,
                    const ArgumentTraits& traits) {
  AddOption(app_, names, value, help, traits);
}

void Arguments::Add(const std::string& names, std::vector<std::string>& values,
                    const std::string& help, const ArgumentTraits& traits) {
  CLI::Option& option = AddOption(app_, names, values, help, traits);
  // What follows one value belongs to the option no more.
  if (!option.get_positional()) option.allow_extra_args(false);
}

void Arguments::Add(const std::string& names, uint64_t& value, const std::string& help,
                    const ArgumentTraits& traits) {
  AddOption(app_, names, value, help, traits).check(CheckWhole<uint64_t>);
}

void Arguments::Add(const std::string& names, std::optional<uid_t>& value, const std::string& help,
                    const ArgumentTraits& traits) {
  AddOption(app_, names, value, help, traits).check(CheckWhole<uid_t>);
}

void Arguments::Add(const std::string& names, std::optional<double>& value, const std::string& help,
                    const ArgumentTraits& traits) {
  AddOption(app_, names, value, help, traits).check(CheckSeconds);
}

void Arguments::AddFlag(const std::string& names, bool& value, const std::string& help) {
  app_.add_flag(names, value, help);
}

CommandParser::CommandParser(const std::string& name, const std::string& version,
                             const std::string& help)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->set_version_flag(
      "--version", name + " " + version,
      "Print this command's version and exit; 'kiln version' has the daemon's too");
  app_->footer("'kiln COMMAND --help' has the options of a command.");
}

CommandParser::~CommandParser() = default;

Arguments CommandParser::CommonArguments() { return Arguments(*app_); }

Arguments CommandParser::AddSubcommand(const std::string& name, const std::string& help,
                                       Command run) {
  CLI::App& command = *app_->add_subcommand(name, help);
  command.footer("Options of every command, as --json, --root and --timeout: 'kiln --help'.");
  command.callback([this, name, run = std::move(run)] {
    chosen_ = [name, run](Session& session) {
      const absl::StatusOr<ExitCode> code = run(session);
      return code.ok() ? *code : Fail(session.console(), name, code.status());
    };
  });
  return Arguments(command);
}

std::function<ExitCode(Session&)> CommandParser::Parse(std::vector<std::string> arguments,
                                                       std::ostream& out, std::ostream& err) {
  try {
    arguments = WithHelpFlag(std::move(arguments));
    std::reverse(arguments.begin(), arguments.end());
    app_->parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    // Help was asked for, with a command that there is or with none.
    const bool is_answer = error.get_exit_code() == 0 && app_->remaining().empty();
    if (is_answer) {
      app_->exit(error, out, err);
      return [](Session&) { return kOk; };
    }
    const UsageError wrong = Explain(*app_, error);
    Console console{out, err};
    Fail(console, wrong.what, CannotRun(InvalidArgument("{}", wrong.why), wrong.advice));
    return [](Session&) { return kCouldNotRun; };
  }
  return chosen_;
}

}  // namespace kiln::cli
