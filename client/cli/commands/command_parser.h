// What may stand on the command line, and where it goes.
//
// CLI11 reads it. Only command_parser.cc includes CLI11: it takes seconds to compile, wherever it
// is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/commands/session.h"

namespace CLI {
class App;
}

namespace kiln::cli {

struct ArgumentTraits {
  std::string value_name = "";  // as the help calls it; "": by its type
  bool is_required = false;
  char separator = '\0';  // of several values in one argument; '\0': each is one
  bool is_path = false;   // an empty one is refused, as a variable of a script that is not set
};

// The arguments of one command, declared one after the other. A view: whoever made it outlives it.
// Values outlive the parsing; they keep what they hold where the command line says nothing.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  // `names` is "-o,--output" for an option and "KEY" for what is known by its place. An option of
  // many values takes one each time that it is given.
  void Add(const std::string& names, std::string& value, const std::string& help,
           const ArgumentTraits& traits = {});
  void Add(const std::string& names, std::vector<std::string>& values, const std::string& help,
           const ArgumentTraits& traits = {});
  void Add(const std::string& names, uint64_t& value, const std::string& help,
           const ArgumentTraits& traits = {});
  void Add(const std::string& names, std::optional<uid_t>& value, const std::string& help,
           const ArgumentTraits& traits = {});
  // Seconds, above zero.
  void Add(const std::string& names, std::optional<double>& value, const std::string& help,
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

  // Those that stand before or behind a subcommand's own.
  [[nodiscard]] Arguments CommonArguments();
  // `run` is what it does, with the values of its arguments.
  Arguments AddSubcommand(const std::string& name, const std::string& help, Command run);

  // What the command line asks for. Where it asks for help or is wrong, that has been printed, and
  // all that is left to do is to return the exit status.
  [[nodiscard]] Command Parse(std::vector<std::string> arguments, std::ostream& out,
                              std::ostream& err);

 private:
  std::unique_ptr<CLI::App> app_;
  Command chosen_;
};

}  // namespace kiln::cli
