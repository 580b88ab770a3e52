// Reads the command line with CLI11. Only command_parser.cc includes CLI11, which takes seconds to
// compile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/commands/session.h"

namespace CLI {
class App;
}

namespace kiln::cli {

struct ArgumentTraits {
  std::string value_name = "";  // in the help; "": by its type
  bool is_required = false;
  char separator = '\0';  // between values in one argument; '\0': an argument is one value
  bool is_path = false;   // refuses "", which is a variable of a script that is not set
};

// Declares the arguments of one command. A view of the CommandParser that made it. A value that the
// command line does not name keeps what it holds.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  // `names` is "-o,--output" for an option and "KEY" for a positional argument. A value is a
  // string, strings (an option takes one each time), a uint64_t, or an optional uid_t or double:
  // seconds, above zero, written as 30, 30s or 10m.
  template <typename Value>
  void Add(const std::string& names, Value& value, const std::string& help,
           const ArgumentTraits& traits = {});
  void AddFlag(const std::string& names, bool& value, const std::string& help);

 private:
  CLI::App& app_;
};

// A command with subcommands, one of which is always given. Not thread-safe.
class CommandParser {
 public:
  CommandParser(const std::string& name, const std::string& version, const std::string& help);
  ~CommandParser();
  CommandParser(const CommandParser&) = delete;
  CommandParser& operator=(const CommandParser&) = delete;

  // Arguments of every subcommand.
  [[nodiscard]] Arguments CommonArguments();
  // `run` is what the subcommand does. Its failure is printed under the subcommand's name.
  Arguments AddSubcommand(const std::string& name, const std::string& help, Command run);
  // Also gives the values that the subcommand reads its arguments into.
  template <typename Values>
  std::pair<Arguments, Values&> AddSubcommand(const std::string& name, const std::string& help,
                                              absl::StatusOr<ExitCode> (*run)(const Values&,
                                                                              Session&)) {
    const auto values = std::make_shared<Values>();
    return {AddSubcommand(name, help, [=](Session& session) { return run(*values, session); }),
            *values};
  }

  // The command that the command line asks for. Prints help, and what is wrong with the command
  // line, itself: the command then only returns the exit status.
  [[nodiscard]] std::function<ExitCode(Session&)> Parse(std::vector<std::string> arguments,
                                                        std::ostream& out, std::ostream& err);

 private:
  std::unique_ptr<CLI::App> app_;
  std::function<ExitCode(Session&)> chosen_;
};

}  // namespace kiln::cli
