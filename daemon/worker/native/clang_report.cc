#include "daemon/worker/native/clang_report.h"

#include <sys/wait.h>

#include <charconv>
#include <optional>

#include "daemon/worker/native/ptxas_report.h"

namespace kiln {
namespace {

constexpr std::string_view kErrorsFile = "kernel.cl";

CompileFailure Undecided(std::string_view log, std::string_view otherwise) {
  CompileFailure failure;
  failure.code = absl::StatusCode::kInternal;
  failure.deterministic = false;
  failure.stage = "spv";
  failure.message = otherwise;
  failure.output = log;
  return failure;
}

bool IsOfThisMachine(std::string_view log) {
  return log.find("No space left on device") != std::string_view::npos ||
         log.find("out of memory") != std::string_view::npos;
}

// Takes "12:" off the front; nothing where it is not there.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<size_t>(end - text.data());
  if (error != std::errc() || digits == text.size() || *end != ':') return std::nullopt;
  text.remove_prefix(digits + 1);
  return number;
}

bool TakeFront(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

bool TakeErrorWord(std::string_view& text) {
  return TakeFront(text, "error: ") || TakeFront(text, "fatal error: ");
}

// "FILE:3:7: error: message"; without a place where clang tells none.
std::optional<CompileFailure> ReadError(std::string_view line) {
  CompileFailure failure;
  failure.stage = "spv";
  std::string_view rest = line;
  if (TakeErrorWord(rest)) {
    failure.message = rest;
    return failure;
  }
  // What clang quotes of the source is indented.
  const size_t colon = line.find(':');
  if (line.starts_with(' ') || colon == std::string_view::npos) return std::nullopt;
  rest = line.substr(colon + 1);
  const auto row = TakeNumber(rest);
  const auto column = row ? TakeNumber(rest) : std::nullopt;
  if (!column || !TakeFront(rest, " ") || !TakeErrorWord(rest)) return std::nullopt;
  failure.message = line;
  if (line.substr(0, colon) == kErrorsFile) {
    failure.message = rest;
    failure.line = *row;
    failure.column = *column;
  }
  return failure;
}

}  // namespace

CompileFailure ReadClangFailure(std::string_view log, std::string_view otherwise) {
  if (IsOfThisMachine(log)) return Undecided(log, otherwise);
  for (std::string_view rest = log; !rest.empty();) {
    if (auto failure = ReadError(TakeLine(rest))) {
      failure->output = log;
      return *std::move(failure);
    }
  }
  return Undecided(log, otherwise);
}

CompileFailure ReadSpirvFailure(std::string_view program, int wait_status, std::string_view log,
                                std::string_view otherwise) {
  if (!WIFEXITED(wait_status) || log.empty() || IsOfThisMachine(log)) {
    return Undecided(log, otherwise);
  }
  CompileFailure failure;
  failure.stage = "spv";
  failure.output = log;
  failure.message = fmt::format("{} refuses what clang made of the source:", program);
  // llvm-spirv names the offence in one line and the offender in the next.
  std::string_view rest = log;
  for (int line = 0; line < 2 && !rest.empty(); ++line) {
    std::string_view text = TakeLine(rest);
    text = text.substr(0, text.find(" [Src:"));
    while (text.starts_with(' ')) text.remove_prefix(1);
    failure.message += fmt::format(" {}", text);
  }
  return failure;
}

}  // namespace kiln
