#include "daemon/worker/native/ptxas_report.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/kernel/ptx_options.h"
#include "daemon/worker/native/command_arguments.h"
#include "daemon/worker/native/ptx_text.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

bool Has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

// "x 'NAME' y", with `before` = "x '".
std::string_view Between(std::string_view line, std::string_view before, char end) {
  const size_t found = line.find(before);
  if (found == std::string_view::npos) return "";
  line.remove_prefix(found + before.size());
  return line.substr(0, line.find(end));
}

// The number in front of `unit`: 256 of "0 barriers, 256 bytes smem".
std::optional<int64_t> NumberBefore(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t number = 0;
  const auto [_, error] = std::from_chars(line.data() + begin, line.data() + end, number);
  return error == std::errc() ? std::optional<int64_t>(number) : std::nullopt;
}

struct Complaint {
  int line = 0;  // 0: none given
  std::string_view text;
};

// "ptxas kernel.ptx, line 5; error   : text", "ptxas fatal   : text".
std::optional<Complaint> ReadComplaint(std::string_view line) {
  if (line.substr(0, 5) != "ptxas") return std::nullopt;
  for (const std::string_view word : {"error", "fatal"}) {
    const size_t at = line.find(word);
    const size_t colon = line.find(": ", at == std::string_view::npos ? 0 : at);
    // The word stands right in front of the colon, with blanks between.
    if (at == std::string_view::npos || colon == std::string_view::npos) continue;
    const std::string_view gap = line.substr(at + word.size(), colon - at - word.size());
    if (gap.find_first_not_of(' ') != std::string_view::npos) continue;
    // In front of it stands the program alone, or a place in the source.
    const std::string_view front = line.substr(0, at);
    if (front != "ptxas " && (front.size() < 2 || front.substr(front.size() - 2) != "; ")) continue;
    Complaint complaint{0, line.substr(colon + 2)};
    if (const auto number = NumberBefore(front, "; ")) complaint.line = static_cast<int>(*number);
    return complaint;
  }
  return std::nullopt;
}

bool HasOneOf(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](auto part) { return Has(text, part); });
}

// code_of_complaint in kiln_triton_worker/ptxas_report.py reads them the same way;
// tests/vectors/ptxas_complaints.json holds the two together.
absl::StatusCode CodeOfComplaint(std::string_view text) {
  if (HasOneOf(text, {"uses too much", "egister allocation failed", "nsufficient registers",
                      "oo many registers", "exceeds the limit", "exceeds limit"})) {
    return absl::StatusCode::kResourceExhausted;
  }
  // The machine gave out, nothing was decided: of memory, which the source may have taken, or of
  // files, which it has no part in.
  if (HasOneOf(text, {"emory allocation", "ut of memory"})) return absl::StatusCode::kInternal;
  if (HasOneOf(text, {"ould not open", "ould not be opened", "ould not write", "annot open",
                      "No space left"})) {
    return absl::StatusCode::kUnavailable;
  }
  return absl::StatusCode::kInvalidArgument;
}

}  // namespace

std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::map<std::string, PtxasUsage> ReadPtxasUsage(std::string_view log) {
  std::map<std::string, PtxasUsage> usage;
  std::string entry;       // that is being compiled
  std::string properties;  // the function whose properties the next line has
  while (!log.empty()) {
    const std::string_view line = TakeLine(log);
    if (const auto name = Between(line, "Compiling entry function '", '\''); !name.empty()) {
      entry = name;
      usage[entry];
    } else if (const auto function = Between(line, "Function properties for ", '\n');
               !function.empty()) {
      properties = function;
    } else if (Has(line, " bytes stack frame")) {
      const auto found = usage.find(properties);
      if (found == usage.end()) continue;  // a function that the entry calls
      found->second.stack_bytes = NumberBefore(line, " bytes stack frame");
      found->second.spill_store_bytes = NumberBefore(line, " bytes spill stores");
      found->second.spill_load_bytes = NumberBefore(line, " bytes spill loads");
    } else if (Has(line, ": Used ") && !entry.empty()) {
      usage[entry].registers = NumberBefore(line, " registers");
      usage[entry].shared_bytes = NumberBefore(line, " bytes smem").value_or(0);
    }
  }
  return usage;
}

CompileFailure ReadPtxasFailure(std::string_view log, std::string_view otherwise) {
  CompileFailure failure;
  failure.stage = "cubin";
  const size_t kept = std::min(log.size(), limits::kDiagnosticsBytesMax);
  failure.output = log.substr(log.size() - kept);
  std::optional<Complaint> first;
  while (!log.empty()) {
    const std::string_view line = TakeLine(log);
    const auto complaint = ReadComplaint(line);
    // That it stops says only that another line says why.
    if (complaint && !first && !Has(complaint->text, "aborted due to errors")) first = complaint;
  }
  failure.code = first ? CodeOfComplaint(first->text) : absl::StatusCode::kInternal;
  failure.deterministic = failure.code == absl::StatusCode::kInvalidArgument ||
                          failure.code == absl::StatusCode::kResourceExhausted;
  failure.line = first ? first->line : 0;
  failure.message = first ? fmt::format("ptxas: {}", first->text) : std::string(otherwise);
  return failure;
}

nlohmann::json DescribePtxasOptions(std::string_view help) {
  // ptxas takes it, though its --help does not say so, and Triton has given it since 3.7.
  constexpr std::string_view kUndocumented = "regAllocOptLevel";
  nlohmann::json described = nlohmann::json::object();
  for (const CommandOption& option : PtxasOptions()) {
    const bool is_listed = Has(help, fmt::format("\n--{} ", option.Argument()));
    if (is_listed || option.name == kUndocumented)
      described[std::string(option.name)] = Declare(option);
  }
  return described;
}

void NameArchitectureOf(std::string_view ptx, CompileFailure& failure) {
  if (!HasOneOf(failure.message, {"SM version specified by .target", " with .target '"})) return;
  constexpr size_t kArchitectureBytesMax = 16;  // of "90a" and what is to come
  const std::string architecture = PtxArchitecture(ptx);
  if (architecture.empty() || architecture.size() > kArchitectureBytesMax) return;
  failure.message +=
      fmt::format("; this PTX says .target sm_{0}: ask for --target cuda:{0}", architecture);
}

}  // namespace kiln
