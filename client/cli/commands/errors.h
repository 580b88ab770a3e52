// Prints failures: what, why, and what to do next.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/commands/session.h"
#include "client/cli/output/console.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Prints "kiln: <what>: <why>" and, if there is advice, "  try: <advice>". Returns kCouldNotRun if
// the daemon could not be asked, kFailed if it refused.
ExitCode Fail(Console& console, std::string_view what, const absl::Status& status);

// Prints why a connection failed. Returns kCouldNotRun.
ExitCode FailToConnect(Console& console, const absl::Status& status);

// Prints what is wrong with the usage, or with a file to be opened. Returns kCouldNotRun.
ExitCode CannotRun(Console& console, std::string_view what, const absl::Status& status);

// Prints the compiler's message about one kernel, "<file>:<line>:<column>: <stage>: <message>", and
// its output, indented. <file> has the author's name for it. A kernel without a file has its own
// name there; a kernel whose name differs from the file's has its name in front.
void PrintCompileFailure(Console& console, std::string_view name, const std::string& source_file,
                         const absl::Status& status);

// What to do when the daemon cannot be reached; "": nothing helps.
[[nodiscard]] std::string_view AdviceOnConnecting(const absl::Status& status);

// One line that names code and cause.
[[nodiscard]] std::string Summarize(const absl::Status& status);

}  // namespace kiln::cli
