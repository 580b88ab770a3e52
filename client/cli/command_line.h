// The whole command: arguments in, exit status out.
#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

namespace kiln::cli {

// The terminals that the process writes to.
struct Terminals {
  bool out = false;
  bool err = false;
  bool color = false;
  size_t columns = 0;  // of `out`; 0: not known
  // Between two lines of progress where `err` is none.
  std::chrono::milliseconds progress_interval = std::chrono::seconds(10);
};

// `arguments` without the program's name. Returns the exit status: 0, 1 or 2 (docs/cli.md). Throws
// nothing.
[[nodiscard]] int RunCommandLine(std::vector<std::string> arguments, std::ostream& out,
                                 std::ostream& err, const Terminals& terminals);

}  // namespace kiln::cli
