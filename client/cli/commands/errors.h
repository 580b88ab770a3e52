// Prints failures: what, why, and what to do next.
#pragma once

#include <string>
#include <string_view>

#include "client/cli/commands/session.h"
#include "client/cli/output/console.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Returns `status` with `what` as its subject instead of the command.
[[nodiscard]] absl::Status About(std::string_view what, absl::Status status);

// Marks `status` as the reason why a command cannot run: wrong usage, no daemon, a file that
// cannot be opened or written.
[[nodiscard]] absl::Status CannotRun(absl::Status status, std::string_view advice = "");

// Returns the value, or its status with `what` as the subject.
template <typename Value>
[[nodiscard]] absl::StatusOr<Value> About(std::string_view what, absl::StatusOr<Value> value) {
  if (!value.ok()) return About(what, value.status());
  return value;
}
template <typename Value>
[[nodiscard]] absl::StatusOr<Value> CannotRun(absl::StatusOr<Value> value) {
  if (!value.ok()) return CannotRun(value.status());
  return value;
}

// Prints "kiln: <what>: <why>" and, if there is advice, "  try: <advice>"; `what`, unless the
// status is About something. Returns kCouldNotRun for CannotRun and where the daemon went away,
// otherwise kFailed.
ExitCode Fail(Console& console, std::string_view what, const absl::Status& status);

// Prints the compiler's message about one kernel, "<file>:<line>:<column>: <stage>: <message>", and
// its output, indented. <file> has the author's name for it. A kernel without a file has its own
// name there; a kernel whose name differs from the file's has its name in front.
void PrintCompileFailure(Console& console, std::string_view name, const std::string& source_file,
                         const absl::Status& status);

// What to do when the daemon cannot be reached; "": nothing helps. `root` is what the caller named.
[[nodiscard]] std::string AdviceOnConnecting(const absl::Status& status, const std::string& root);

// One line that names code and cause.
[[nodiscard]] std::string Summarize(const absl::Status& status);

}  // namespace kiln::cli
