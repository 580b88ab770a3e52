#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/source_difference.h"
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

Explanation Explain(Artifact artifact, AdminClient& admin, Client& client, Session& session) {
  Explanation explanation{std::move(artifact), v1::NearestResponse(), {}};
  const auto request =
      StoredRequest(admin, explanation.artifact.key(), session.Call(kQuestionTime));
  // Evicted just now, say, or an artifact of a daemon that did not keep requests.
  if (!request.ok()) {
    explanation.nearest = request.status();
    return explanation;
  }
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
  return fmt::format(" for uid {}{}{}", artifact.uid(),
                     artifact.job().empty() ? "" : ", job " + artifact.job(),
                     artifact.ahead() ? ", by a warm or an import" : "");
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

// Artifacts without entries of users' own namespaces: all, or those that somebody waited for, of
// the job or the last.
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
      const bool is_miss = !one.ahead() || !arguments.key.empty();
      if (is_miss && !one.has_own_uid()) all.push_back(one);
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
    console.out.flush();
  }
  if (chosen.empty()) {
    console.err << "kiln why: nothing is stored that somebody waited for; what a warm had compiled "
                   "is no miss\n";
  }
  return chosen.empty() ? kFailed : kOk;
}

}  // namespace

void AddWhy(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "why", "Say why a kernel was compiled: what was stored, and what differs", RunWhy);
  command.Add("KEY", arguments.key, kKeyHelp);
  command.AddFlag("--last-miss", arguments.last_miss, "The kernel that somebody waited for last");
  command.Add("--job", arguments.job, "Everything that this job waited for first, newest first");
}

}  // namespace kiln::cli
