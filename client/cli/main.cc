#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "client/cli/command_line.h"

namespace {

bool WantsColor() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return (no_color == nullptr || *no_color == '\0') && !is_dumb;
}

size_t Columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);  // requests are read on one thread, answers written on another
  const kiln::cli::Terminals terminals{
      .out = ::isatty(STDOUT_FILENO) == 1,
      .err = ::isatty(STDERR_FILENO) == 1,
      .color = WantsColor() && ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1,
      .columns = Columns(),
  };
  try {
    return kiln::cli::RunCommandLine({argv + 1, argv + argc}, std::cout, std::cerr, terminals);
  } catch (const std::exception& error) {
    std::cerr << "kiln: " << error.what() << '\n';
    return 2;
  }
}
