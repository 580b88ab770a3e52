#include "client/cli/commands/errors.h"

#include <absl/strings/cord.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/rpc/client.h"
#include "client/rpc/dial.h"
#include "client/rpc/retry.h"
#include "client/rpc/socket_path.h"

namespace kiln::cli {
namespace {

constexpr char kWhatUrl[] = "kiln.cli/what";
// On the failure of a command that cannot run; may be empty.
constexpr char kAdviceUrl[] = "kiln.cli/advice";

void PrintError(Console& console, std::string_view what, const absl::Status& status,
                std::string_view advice) {
  console.err << console.Styled("kiln:", Style::kBad) << ' ' << Printable(what) << ": "
              << Printable(Message(status)) << '\n';
  if (!advice.empty()) console.err << "  try: " << advice << '\n';
}

constexpr std::string_view kAdviceOnWedged =
    "again in a moment; where that does not help, look at the daemon's log and restart it "
    "('systemctl restart kilnd')";

std::string AdviceOnCall(const absl::Status& status) {
  if (IsWedgedStatus(status)) return std::string(kAdviceOnWedged);
  const std::string key = RequestKeyOf(status);
  if (absl::IsInternal(status) && !key.empty()) {
    // The compiler crashed. The daemon keeps the request while the kernel is in quarantine.
    return fmt::format("'kiln reproduce {}', which writes what it takes to repeat it by hand",
                       Hex(key));
  }
  if (const auto wait = RetryAfterOf(status)) {
    return fmt::format("again in {}", FormatDuration(*wait));
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return "'kiln doctor', and the daemon's log ('journalctl -u kilnd')";
    case absl::StatusCode::kDeadlineExceeded:
      return "a longer --timeout; 'kiln stats' shows how much is queued";
    case absl::StatusCode::kUnimplemented:
      return "'kiln version': daemon and command are of different versions";
    case absl::StatusCode::kDataLoss:
      return "'kiln verify' for a stored artifact, which is then compiled again; a damaged "
             "manifest has to be copied or recorded again";
    case absl::StatusCode::kInternal:
      return "again; the daemon's log has the details ('journalctl -u kilnd')";
    default:
      return "";
  }
}

// A compiler that gives up may print megabytes.
constexpr int kOutputLinesMax = 24;

// The compiler gets every source under the same name, such as kernel.cu, so that equal sources are
// compiled once. Puts the author's name in its place.
std::string WithOwnName(std::string text, const std::string& source_file) {
  const auto is_part = [&text](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) ||
                                std::string_view("_./").find(text[at]) != std::string_view::npos);
  };
  for (const std::string_view name :
       {"kernel.cu", "kernel.cl", "kernel.ptx", "kernel.ttir", "kernel.ttgir"}) {
    for (size_t at = text.find(name); at != std::string::npos;) {
      const bool is_whole = (at == 0 || !is_part(at - 1)) && !is_part(at + name.size());
      if (is_whole) text.replace(at, name.size(), source_file);
      at = text.find(name, at + (is_whole ? source_file : name).size());
    }
  }
  return text;
}

// "scale.cu:3:7". ptxas tells no column.
std::string PlaceOf(const std::string& file, int line, int column) {
  std::string place = Printable(file);
  if (line > 0) place += fmt::format(":{}", line);
  if (line > 0 && column > 0) place += fmt::format(":{}", column);
  return place;
}

std::string Indented(std::string_view text) {
  std::string indented;
  for (int lines = 0; !text.empty(); ++lines) {
    if (lines == kOutputLinesMax) {
      return indented + fmt::format("    … {} lines more; --json has all of it\n",
                                    std::count(text.begin(), text.end(), '\n') + 1);
    }
    const size_t end = text.find('\n');
    indented += "    " + Printable(text.substr(0, end)) + "\n";
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return indented;
}

}  // namespace

std::string AdviceOnConnecting(const absl::Status& status, const std::string& root) {
  if (IsWedgedStatus(status)) return std::string(kAdviceOnWedged);
  if (const auto uid = UntrustedServer(status)) {
    return fmt::format("--server-uid {}, if that user's daemon is the one that you mean", *uid);
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (!root.empty()) return fmt::format("start one with 'kilnd --root {}'", root);
      return "start one with 'systemctl start kilnd', or 'kilnd --root DIR' and then 'kiln --root "
             "DIR'";
    case absl::StatusCode::kPermissionDenied:
      if (Message(status).find(kAdminSocket) != std::string_view::npos) {
        return "as an operator: root, the user of the daemon, or who may write to the socket "
               "(ls -l shows it; sockets.admin_group)";
      }
      return "join the group that owns the socket (ls -l shows it)";
    default:
      return "";
  }
}

absl::Status About(std::string_view what, absl::Status status) {
  status.SetPayload(kWhatUrl, absl::Cord(std::string(what)));
  return status;
}

absl::Status CannotRun(absl::Status status, std::string_view advice) {
  status.SetPayload(kAdviceUrl, absl::Cord(std::string(advice)));
  return status;
}

ExitCode Fail(Console& console, std::string_view what, const absl::Status& status) {
  const auto own_what = status.GetPayload(kWhatUrl);
  const auto own_advice = status.GetPayload(kAdviceUrl);
  PrintError(console, own_what ? std::string(*own_what) : std::string(what), status,
             own_advice ? std::string(*own_advice) : AdviceOnCall(status));
  return own_advice || absl::IsUnavailable(status) ? kCouldNotRun : kFailed;
}

void PrintCompileFailure(Console& console, std::string_view name, const std::string& source_file,
                         const absl::Status& status) {
  const auto diagnostics = DiagnosticsOf(status);
  if (!diagnostics.has_value()) {
    PrintError(console, name, status, AdviceOnCall(status));
    return;
  }
  const std::string own_name(source_file.empty() ? name : std::string_view(source_file));
  const bool is_named_so =
      source_file.empty() || std::filesystem::path(source_file).stem().string() == name;
  const std::string where = (is_named_so ? "" : fmt::format("{}: ", Printable(name))) +
                            PlaceOf(own_name, diagnostics->line(), diagnostics->column());
  const std::string stage =
      diagnostics->stage().empty() ? "" : fmt::format("{}: ", Printable(diagnostics->stage()));
  console.err << console.Styled(where + ":", Style::kBad) << ' ' << stage
              << Printable(diagnostics->message()) << '\n';
  for (const v1::CompileNote& note : diagnostics->notes()) {
    console.err << "  "
                << PlaceOf(note.file().empty() ? own_name : note.file(), note.line(), note.column())
                << ": note: " << Printable(note.message()) << '\n';
  }
  console.err << Indented(source_file.empty() ? diagnostics->output()
                                              : WithOwnName(diagnostics->output(), source_file));
}

std::string Summarize(const absl::Status& status) {
  return fmt::format("{}: {}", absl::StatusCodeToString(status.code()), Message(status));
}

}  // namespace kiln::cli
