#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <span>
#include <sstream>
#include <utility>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/requests/request_json.h"
#include "client/rpc/admin_client.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"

namespace kiln::cli {
namespace {

using Artifact = admin::v1::ArtifactSummary;

struct WhyArguments {
  std::string key;
  std::string job;
  bool last_miss = false;
};

constexpr size_t kSourceLinesShownMax = 3;
constexpr size_t kSourceLineBytesMax = 100;
constexpr size_t kBytesBeforeDifference = 40;
constexpr int kLocationDepthMax = 8;
constexpr size_t kLocationBytesMax = 4096;

// A compile that somebody waited for, and the other stored artifact that comes closest.
struct Explanation {
  Artifact artifact;
  // Without a key where there is none. An error where it cannot be asked for: the toolchain is
  // gone.
  absl::StatusOr<v1::NearestResponse> nearest;
  std::vector<std::string> source_lines;
};

absl::StatusOr<v1::CompileRequest> StoredRequest(AdminClient& admin, const std::string& key,
                                                 const CallOptions& call) {
  admin::v1::GetRequestRequest asked;
  asked.set_key_prefix(Hex(key));
  KILN_ASSIGN_OR_RETURN(const auto found, admin.GetRequest(call, asked));
  KILN_ASSIGN_OR_RETURN(const Json document, ParseJson(found.request()));
  if (!document.contains("request")) return Internal("the daemon's answer is not a request");
  KILN_ASSIGN_OR_RETURN(v1::CompileRequest request, ParseRequest(document.at("request"), "."));
  request.set_toolchain(document.value("fingerprint", request.toolchain()));
  return request;
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

// The part of a line with its first difference to another.
std::string DifferentPart(const std::string& line, const std::string& other) {
  const auto [at, _] = std::ranges::mismatch(line, other);
  const auto before = static_cast<size_t>(at - line.begin());
  if (before < kSourceLineBytesMax - kBytesBeforeDifference) {
    return line.substr(0, kSourceLineBytesMax);
  }
  return "…" + line.substr(before - kBytesBeforeDifference, kSourceLineBytesMax);
}

// "train.py:31", what a location of Triton IR says, such as `loc("train.py":31:8)`; "" where it
// says nothing. It may name others, as `#loc7 = loc("train.py":31:8)` at the end of the text.
std::string PlaceOf(std::string location, const std::string& text) {
  static const std::regex place(R"re("([^"]+)":([0-9]+):[0-9]+)re");
  static const std::regex reference(R"(#loc[0-9]*)");
  for (int depth = 0; depth < kLocationDepthMax; ++depth) {
    location.resize(std::min(location.size(), kLocationBytesMax));  // the search recurses
    std::smatch match;
    if (std::regex_search(location, match, place)) return match[1].str() + ":" + match[2].str();
    if (!std::regex_search(location, match, reference)) break;
    const std::string definition = "\n" + match.str() + " = loc(";
    const size_t found = text.find(definition);
    if (found == std::string::npos) break;
    const size_t value = found + definition.size();
    location = text.substr(value, text.find('\n', value) - value);
  }
  return "";
}

std::string LocationIn(const std::string& line) {
  const size_t begin = line.rfind(" loc(");
  return begin == std::string::npos ? "" : line.substr(begin);
}

// Whether the line of Triton IR has the value: "%cst", and not "%cst_0".
bool Uses(const std::string& line, const std::string& value) {
  for (size_t at = line.find(value); at != std::string::npos; at = line.find(value, at + 1)) {
    const size_t end = at + value.size();
    const auto next = static_cast<unsigned char>(end < line.size() ? line[end] : ' ');
    if (std::isalnum(next) == 0 && next != '_') return true;
  }
  return false;
}

// Where a line of Triton IR comes from in the program; of a constant, whose own place Triton does
// not keep, where it is first used. "" where nothing says it.
std::string ProgramPlace(const std::vector<std::string>& lines, size_t at,
                         const std::string& text) {
  const std::string own = PlaceOf(LocationIn(lines[at]), text);
  const size_t equals = lines[at].find(" = ");
  const size_t begin = lines[at].find('%');
  if (!own.empty() || begin == std::string::npos || equals == std::string::npos) return own;
  const std::string value = lines[at].substr(begin, equals - begin);
  for (size_t i = at + 1; i < lines.size(); ++i) {
    if (Uses(lines[i], value)) return PlaceOf(LocationIn(lines[i]), text);
  }
  return "";
}

// "line 12 (train.py:31): a" and "  stored: b", of the first lines that are not the same. Lines
// that were added or removed are between those that both begin and end with.
std::vector<std::string> DifferentLines(const std::string& asked, const std::string& stored) {
  const std::vector<std::string> mine = SplitLines(asked);
  const std::vector<std::string> others = SplitLines(stored);
  const auto begins = std::ranges::mismatch(mine, others);
  const auto ends = std::mismatch(mine.rbegin(), std::reverse_iterator(begins.in1), others.rbegin(),
                                  std::reverse_iterator(begins.in2));
  const std::span my_rest(begins.in1, ends.first.base());
  const std::span other_rest(begins.in2, ends.second.base());
  const auto first_line = static_cast<size_t>(begins.in1 - mine.begin()) + 1;
  std::vector<std::string> different;
  for (size_t i = 0; i < std::max(my_rest.size(), other_rest.size()); ++i) {
    const std::string mine_here = i < my_rest.size() ? my_rest[i] : "(no line)";
    const std::string other_here = i < other_rest.size() ? other_rest[i] : "(no line)";
    if (mine_here == other_here) continue;
    if (different.size() == 2 * kSourceLinesShownMax) break;
    const size_t at = first_line - 1 + i;
    const std::string place = i < my_rest.size() ? ProgramPlace(mine, at, asked) : "";
    different.push_back(fmt::format("line {}{}: {}", first_line + i,
                                    place.empty() ? "" : fmt::format(" ({})", place),
                                    DifferentPart(mine_here, other_here)));
    different.push_back(fmt::format("  stored: {}", DifferentPart(other_here, mine_here)));
  }
  return different;
}

Explanation Explain(Artifact artifact, AdminClient& admin, Client& client, Session& session) {
  Explanation explanation{std::move(artifact), v1::NearestResponse(), {}};
  const auto request =
      StoredRequest(admin, explanation.artifact.key(), session.Call(kQuestionTime));
  // Evicted just now, or an artifact of a daemon that did not keep requests.
  if (!request.ok()) return explanation;
  explanation.nearest = client.Nearest(*request, session.Call(kQuestionTime));
  if (!explanation.nearest.ok()) return explanation;
  const auto& differences = explanation.nearest->differences();
  const bool is_source = std::any_of(differences.begin(), differences.end(), [](const auto& one) {
    return one.field() == "source" || one.field() == "source paths";
  });
  if (!is_source) return explanation;
  const auto other = StoredRequest(admin, explanation.nearest->key(), session.Call(kQuestionTime));
  if (other.ok()) {
    explanation.source_lines = DifferentLines(request->source().text(), other->source().text());
  }
  return explanation;
}

std::string CompileTime(uint64_t micros) {
  return FormatDuration(std::chrono::microseconds(static_cast<int64_t>(micros)));
}

std::string Requester(const Artifact& artifact) {
  if (!artifact.has_uid()) return "";
  return fmt::format(" for uid {}{}", artifact.uid(),
                     artifact.job().empty() ? "" : ", job " + artifact.job());
}

void PrintExplanation(Console& console, const Explanation& explanation) {
  const Artifact& artifact = explanation.artifact;
  const int64_t now_ms = SystemClock().UnixMillis();
  console.out << fmt::format(
      "{}  {} for {}\n  compiled {} ago in {} by {}{}\n",
      Hex(artifact.key()).substr(0, kFingerprintDigitsShown), Printable(artifact.name()),
      TargetName(artifact.target()), FormatAge(artifact.created_unix_ms(), now_ms),
      CompileTime(artifact.compile_micros()), artifact.toolchain(), Printable(Requester(artifact)));
  if (artifact.hits() > 0) {
    console.out << fmt::format("  used {} since: {} saved\n", FormatCount(artifact.hits(), "time"),
                               CompileTime(artifact.hits() * artifact.compile_micros()));
  }
  if (!explanation.nearest.ok()) {
    console.out << fmt::format("  the nearest is not known: {}\n",
                               Printable(Message(explanation.nearest.status())));
    return;
  }
  const v1::NearestResponse& nearest = *explanation.nearest;
  if (nearest.key().empty()) {
    console.out << "  no other kernel of this name is stored\n";
    return;
  }
  const bool is_older = nearest.created_unix_ms() <= artifact.created_unix_ms();
  console.out << fmt::format(
      "  {}: {}, stored {} ago, differs in\n",
      is_older ? "the nearest that was stored" : "the nearest, which came later",
      Hex(nearest.key()).substr(0, kFingerprintDigitsShown),
      FormatAge(nearest.created_unix_ms(), now_ms));
  for (const v1::RequestDifference& one : nearest.differences()) {
    console.out << fmt::format("    {}: asked {}, stored {}\n", Printable(one.field()),
                               Printable(one.asked()), Printable(one.stored()));
  }
  for (const std::string& line : explanation.source_lines) {
    console.out << "      " << Printable(line) << '\n';
  }
}

Json ExplanationJson(const Explanation& explanation) {
  Json json = ToJson(explanation.artifact);
  json["saved_micros"] = explanation.artifact.hits() * explanation.artifact.compile_micros();
  const auto& nearest = explanation.nearest;
  json["nearest"] = !nearest.ok() || nearest->key().empty() ? Json() : ToJson(*nearest);
  if (!nearest.ok()) json["nearest_error"] = Message(nearest.status());
  json["source_lines"] = explanation.source_lines;
  return json;
}

// Artifacts that were compiled for the job, or all, or the last; without entries of users' own
// namespaces.
absl::StatusOr<std::vector<Artifact>> Compiled(AdminClient& admin, const WhyArguments& arguments,
                                               Session& session) {
  std::vector<Artifact> all;
  admin::v1::ListArtifactsRequest request;
  request.set_job(arguments.job);
  request.set_newest(arguments.last_miss ? 1 : 0);
  do {
    KILN_ASSIGN_OR_RETURN(const auto page,
                          admin.ListArtifacts(session.Call(kQuestionTime), request));
    for (const Artifact& one : page.artifacts()) {
      if (!one.has_own_uid()) all.push_back(one);
    }
    request.set_after(page.next());
  } while (!request.after().empty());
  std::stable_sort(all.begin(), all.end(), [](const Artifact& a, const Artifact& b) {
    return a.created_unix_ms() > b.created_unix_ms();
  });
  return all;
}

// A miss that nobody compiled is nowhere (docs/adr/0082).
absl::Status NotStored(std::string_view key) {
  return About(key, NotFound("no stored kernel has this key or name, and misses are not "
                             "remembered; 'kiln compile --requests FILE --cache only-if-cached' "
                             "compares a request that missed with what is stored, and "
                             "KILN_MODE=record writes a job's requests into such a FILE"));
}

absl::StatusOr<std::vector<Artifact>> ChosenArtifacts(const WhyArguments& arguments,
                                                      AdminClient& admin, Session& session) {
  if (arguments.key.empty() || admin.is_own()) {
    KILN_ASSIGN_OR_RETURN(std::vector<Artifact> all, Compiled(admin, arguments, session));
    std::erase_if(all, [&arguments](const Artifact& one) {
      return one.name() != arguments.key && !Hex(one.key()).starts_with(arguments.key);
    });
    // An earlier daemon lists all.
    if (arguments.last_miss && all.size() > 1) all.resize(1);
    if (all.empty() && !arguments.key.empty()) return NotStored(arguments.key);
    return all;
  }
  const auto key = ResolveKey(admin, arguments.key, session.Call(kQuestionTime));
  if (absl::IsNotFound(key.status())) return NotStored(arguments.key);
  if (!key.ok()) return About(arguments.key, key.status());
  admin::v1::InspectArtifactRequest request;
  request.set_key_prefix(key->Hex());
  const auto found = admin.InspectArtifact(session.Call(kQuestionTime), request);
  if (absl::IsNotFound(found.status())) return NotStored(arguments.key);
  if (!found.ok()) return About(arguments.key, found.status());
  return std::vector<Artifact>{found->summary()};
}

absl::StatusOr<ExitCode> RunWhy(const WhyArguments& arguments, Session& session) {
  if (arguments.key.empty() == (arguments.job.empty() && !arguments.last_miss)) {
    return CannotRun(InvalidArgument("name a key, or --last-miss, or --job NAME"));
  }
  if (!arguments.key.empty()) KILN_RETURN_IF_ERROR(CannotRun(CheckKey(arguments.key)));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdminOrOwn());
  KILN_ASSIGN_OR_RETURN(const auto client, session.Connect());
  KILN_ASSIGN_OR_RETURN(const std::vector<Artifact> chosen,
                        ChosenArtifacts(arguments, *admin, session));
  Console& console = session.console();
  for (const Artifact& artifact : chosen) {
    const Explanation explanation = Explain(artifact, *admin, *client, session);
    if (session.json()) {
      console.out << Dump(ExplanationJson(explanation)) << '\n';
    } else {
      PrintExplanation(console, explanation);
    }
  }
  console.out.flush();
  if (chosen.empty()) console.err << "kiln why: nothing was compiled that is still stored\n";
  return chosen.empty() ? kFailed : kOk;
}

}  // namespace

void AddWhy(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "why", "Say why a kernel was compiled: what was stored, and what differs", RunWhy);
  command.Add("KEY", arguments.key, kKeyHelp);
  command.AddFlag("--last-miss", arguments.last_miss, "The kernel that was compiled last");
  command.Add("--job", arguments.job,
              "Everything that was compiled first for this job, newest first");
}

}  // namespace kiln::cli
