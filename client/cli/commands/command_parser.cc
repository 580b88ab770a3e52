#include "client/cli/commands/command_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "client/cli/commands/errors.h"
#include "client/cli/output/console.h"
#include "storage/base/nearest_word.h"
#include "storage/base/units.h"

namespace kiln::cli {
namespace {

std::string CheckPath(const std::string& text) {
  return text.empty() ? "is empty; name a path, or leave it out" : "";
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

// Makes seconds of a duration such as 10m. A number alone is seconds already.
std::string ToSeconds(std::string& text) {
  double value = 0;
  if (const auto duration = ParseDuration(text); duration.ok()) {
    value = std::chrono::duration<double>(*duration).count();
    text = std::to_string(value);
  } else if (!CLI::detail::lexical_cast(text, value)) {
    value = 0;
  }
  if (value > 0 && std::isfinite(value)) return "";
  return fmt::format("'{}' is no time above 0, as 30 (seconds), 30s or 10m", text);
}

// The commands and options that `apps` know.
std::vector<std::string> KnownWords(const std::vector<CLI::App*>& apps) {
  std::vector<std::string> known;
  for (const CLI::App* app : apps) {
    for (const CLI::App* command : app->get_subcommands({})) known.push_back(command->get_name());
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  }
  return known;
}

// "help", "help ls": as people ask who know git.
std::vector<std::string> WithHelpFlag(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
  return arguments;
}

}  // namespace

template <typename Value>
void Arguments::Add(const std::string& names, Value& value, const std::string& help,
                    const ArgumentTraits& traits) {
  CLI::Option& option = *app_.add_option(names, value, help);
  if (!traits.value_name.empty()) option.type_name(traits.value_name);
  option.required(traits.is_required);
  option.delimiter(traits.separator);
  if (traits.is_path) option.check(CheckPath);
  if constexpr (std::is_same_v<Value, uint64_t>) option.check(CheckWhole<uint64_t>);
  if constexpr (std::is_same_v<Value, std::optional<uid_t>>) option.check(CheckWhole<uid_t>);
  if constexpr (std::is_same_v<Value, std::optional<double>>)
    option.transform(CLI::Validator(ToSeconds, ""));
  // What follows one of several values belongs to the option no more.
  const bool is_list = std::is_same_v<Value, std::vector<std::string>>;
  if (is_list && !option.get_positional()) option.allow_extra_args(false);
}

using Text = const std::string&;
template void Arguments::Add(Text, std::string&, Text, const ArgumentTraits&);
template void Arguments::Add(Text, std::vector<std::string>&, Text, const ArgumentTraits&);
template void Arguments::Add(Text, uint64_t&, Text, const ArgumentTraits&);
template void Arguments::Add(Text, std::optional<uid_t>&, Text, const ArgumentTraits&);
template void Arguments::Add(Text, std::optional<double>&, Text, const ArgumentTraits&);

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
    std::vector<CLI::App*> chosen = app_->get_subcommands();
    const std::string command = chosen.empty() ? "" : chosen.front()->get_name();
    chosen.push_back(app_.get());
    // Without a command, CLI11 says no more than that one is missing.
    const std::vector<std::string> unknown = app_->remaining(true);
    const std::string why = unknown.empty()
                                ? error.what()
                                : fmt::format("'{}' is not known here{}", unknown.front(),
                                              DidYouMean(unknown.front(), KnownWords(chosen)));
    Console console{out, err};
    Fail(console, command.empty() ? "usage" : command,
         CannotRun(InvalidArgument("{}", why),
                   fmt::format("'kiln {}--help'", command.empty() ? "" : command + " ")));
    return [](Session&) { return kCouldNotRun; };
  }
  return chosen_;
}

}  // namespace kiln::cli
