#include "client/cli/command_parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "client/cli/console.h"

namespace kiln::cli {
namespace {

template <typename Value>
CLI::Option& AddOption(CLI::App& app, const std::string& names, Value& value,
                       const std::string& help, const ArgumentTraits& traits) {
  CLI::Option& option = *app.add_option(names, value, help);
  if (!traits.value_name.empty()) option.type_name(traits.value_name);
  option.required(traits.is_required);
  option.delimiter(traits.separator);
  return option;
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
  AddOption(app_, names, value, help, traits).check([](const std::string& text) {
    return std::string(text.starts_with('-') ? "give a whole number, 0 or more" : "");
  });
}

void Arguments::Add(const std::string& names, std::optional<uid_t>& value, const std::string& help,
                    const ArgumentTraits& traits) {
  AddOption(app_, names, value, help, traits);
}

void Arguments::Add(const std::string& names, std::optional<double>& value, const std::string& help,
                    const ArgumentTraits& traits) {
  AddOption(app_, names, value, help, traits).check(CLI::PositiveNumber);
}

void Arguments::AddFlag(const std::string& names, bool& value, const std::string& help) {
  app_.add_flag(names, value, help);
}

CommandParser::CommandParser(const std::string& name, const std::string& help)
    : app_(std::make_unique<CLI::App>(help, name)) {
  app_->require_subcommand(1);
  app_->fallthrough();
}

CommandParser::~CommandParser() = default;

Arguments CommandParser::CommonArguments() { return Arguments(*app_); }

Arguments CommandParser::AddSubcommand(const std::string& name, const std::string& help,
                                       Command run) {
  CLI::App& command = *app_->add_subcommand(name, help);
  command.callback([this, run = std::move(run)] { chosen_ = run; });
  return Arguments(command);
}

Command CommandParser::Parse(std::vector<std::string> arguments, std::ostream& out,
                             std::ostream& err) {
  try {
    std::reverse(arguments.begin(), arguments.end());
    app_->parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (const std::vector<std::string> unknown = app_->remaining();
        chosen_ == nullptr && !unknown.empty() && error.get_exit_code() != 0) {
      err << "kiln: there is no command '" << Printable(unknown.front())
          << "'\n  try: 'kiln --help', which lists them\n";
      return [](Session&) { return kCouldNotRun; };
    }
    const ExitCode code = app_->exit(error, out, err) == 0 ? kOk : kCouldNotRun;
    return [code](Session&) { return code; };
  }
  return chosen_;
}

}  // namespace kiln::cli
