#include "daemon/pool/abort_diagnosis.h"

#include <algorithm>
#include <array>
#include <string>

#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr std::string_view kLlvmError = "LLVM ERROR: ";

// Another machine, or another moment, and it might compile.
constexpr std::array<std::string_view, 7> kMachineGaveOut = {
    "out of memory", "allocat",     "IO failure", "No space left",
    "Too many open", "cannot open", "pthread"};

// Whether a line of the output begins at `at`.
bool BeginsLine(std::string_view output, size_t at) { return at == 0 || output[at - 1] == '\n'; }

}  // namespace

std::optional<CompileFailure> DiagnoseAbort(std::string_view output, std::string_view stage) {
  const size_t at = output.rfind(kLlvmError);
  if (at == std::string_view::npos || !BeginsLine(output, at)) return std::nullopt;
  std::string_view words = output.substr(at + kLlvmError.size());
  words = words.substr(0, words.find('\n'));
  const bool machine_gave_out = std::any_of(
      kMachineGaveOut.begin(), kMachineGaveOut.end(),
      [&](std::string_view sign) { return words.find(sign) != std::string_view::npos; });
  if (words.empty() || machine_gave_out) return std::nullopt;
  CompileFailure failure;
  failure.code = absl::StatusCode::kInvalidArgument;
  failure.stage = stage;
  failure.message = words.substr(0, limits::kNameBytesMax);
  const size_t kept = std::min(output.size(), limits::kDiagnosticsBytesMax);
  failure.output = output.substr(output.size() - kept);
  failure.deterministic = true;
  return failure;
}

}  // namespace kiln
