// Failures as a person wants to read them: what, why, and what to do next.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/commands/session.h"
#include "client/cli/output/console.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Prints "kiln: <what>: <why>" and, where there is something to do, "  try: <it>". Returns
// kCouldNotRun where nobody could be asked, kFailed where the daemon said no.
ExitCode Fail(Console& console, std::string_view what, const absl::Status& status);

// The same where the connection could not be made: always kCouldNotRun.
ExitCode FailToConnect(Console& console, const absl::Status& status);

// The same for wrong usage and for files that cannot be opened: always kCouldNotRun.
ExitCode CannotRun(Console& console, std::string_view what, const absl::Status& status);

// What the compiler said about one kernel: "<file>:<line>:<column>: <stage>: <message>" and its
// output, indented. The file is called as its author called it. The kernel's name stands in its
// place where there is none, and before it where it says more.
void PrintCompileFailure(Console& console, std::string_view name, const std::string& source_file,
                         const absl::Status& status);

// What to do where the daemon cannot be reached; "" where there is nothing to be done.
[[nodiscard]] std::string_view AdviceOnConnecting(const absl::Status& status);

// One line that names code and cause.
[[nodiscard]] std::string Summarize(const absl::Status& status);

}  // namespace kiln::cli
