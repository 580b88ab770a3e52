#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/request_source.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/table.h"
#include "client/cli/requests/manifest_writer.h"
#include "client/cli/requests/own_entries.h"
#include "client/cli/requests/request_json.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

struct ManifestArguments {
  std::string action;
  std::vector<std::string> files;
  std::string output;
  std::string kernel;
  std::string target;
  std::string shard;
};

using Visit = std::function<absl::Status(const NamedRequest&)>;

// Every request of the file. The first that cannot be read ends it, with its status.
absl::Status ForEach(RequestFile& file, const std::string& path, const Visit& visit) {
  while (const auto named = file.Next()) {
    if (!named->request.ok()) return About(path, Annotate(named->request.status(), named->name));
    KILN_RETURN_IF_ERROR(visit(*named));
  }
  return absl::OkStatus();
}

absl::StatusOr<RequestFile> Open(const std::string& path) {
  return CannotRun(About(path, RequestFile::Open(path)));
}

// --- show ------------------------------------------------------------------------------------

std::string Compile(const Recorded& recorded) {
  if (recorded.is_refused) return "refused";
  if (recorded.compile_micros == 0) return "";
  return FormatDuration(std::chrono::microseconds(static_cast<int64_t>(recorded.compile_micros)));
}

// A fingerprint is cut for a person.
std::string Toolchain(const v1::CompileRequest& request) {
  constexpr size_t kFingerprintDigits = 2 * Digest::kSizeBytes;
  const std::string& selector = request.toolchain();
  const bool is_fingerprint = selector.size() == kFingerprintDigits;
  return is_fingerprint ? selector.substr(0, kFingerprintDigitsShown) : selector;
}

// "num_warps=8 num_stages=3".
std::string OptionsText(const v1::CompileRequest& request) {
  std::string text;
  for (const char* group : {"launch", "options"}) {
    const Json json = RequestJson(request).value(group, Json::object());
    for (const auto& [name, value] : json.items()) {
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", name,
                          value.is_string() ? value.get<std::string>() : Dump(value));
    }
  }
  return text;
}

Fields OriginFields(const v1::ManifestOrigin& origin) {
  std::string command;
  for (const std::string& word : origin.command()) command += (command.empty() ? "" : " ") + word;
  Fields fields = {{"job", origin.job()},
                   {"model", origin.model()},
                   {"command", command},
                   {"host", origin.host()}};
  if (origin.created_unix_ms() > 0) {
    fields.emplace_back("made",
                        FormatAge(origin.created_unix_ms(), SystemClock().UnixMillis()) + " ago");
  }
  const std::map<std::string, std::string> versions(origin.versions().begin(),
                                                    origin.versions().end());
  fields.insert(fields.end(), versions.begin(), versions.end());
  for (const std::string& device : origin.devices()) fields.emplace_back("device", device);
  return fields;
}

absl::StatusOr<ExitCode> Show(const ManifestArguments& arguments, Session& session) {
  Console& console = session.console();
  Table table(console, {{"KERNEL", false, /*is_elastic=*/true},
                        {"TARGET"},
                        {"TOOLCHAIN"},
                        {"COUNT", true},
                        {"COMPILE", true},
                        {"OPTIONS", false, /*is_elastic=*/true}});
  for (const std::string& path : arguments.files) {
    KILN_ASSIGN_OR_RETURN(RequestFile file, Open(path));
    uint64_t requests = 0;
    KILN_RETURN_IF_ERROR(ForEach(file, path, [&](const NamedRequest& named) {
      ++requests;
      if (session.json()) {
        console.out << RequestLine(named) << '\n';
      } else {
        table.AddRow({named.name, TargetName(named.request->target()), Toolchain(*named.request),
                      std::to_string(named.recorded.count), Compile(named.recorded),
                      OptionsText(*named.request)});
      }
      return absl::OkStatus();
    }));
    table.Flush();
    if (session.json()) {
      // In a file of this user's, what others wrote would pass for this user's.
      if (const auto trusted = TrustedFile::Open(path)) {
        KILN_RETURN_IF_ERROR(About(path, ForEachOwnEntry(trusted->path(), [&](const auto& entry) {
                                     console.out << OwnEntryLine(entry) << '\n';
                                     return absl::OkStatus();
                                   })));
      }
      console.out << OriginLine(file.origin()) << std::endl;
      continue;
    }
    Fields fields = {{"requests", std::to_string(requests)}};
    if (file.manifest() != nullptr) {
      const v1::ManifestIndex& index = file.manifest()->index();
      fields.emplace_back("sources", std::to_string(index.sources()));
      fields.emplace_back("digest", Hex(index.digest()));
      fields.emplace_back("lookup keys and tunings", std::to_string(index.own_entries()));
    }
    const Fields origin = OriginFields(file.origin());
    fields.insert(fields.end(), origin.begin(), origin.end());
    PrintFields(console, path, fields);
  }
  return kOk;
}

// --- merge and subset --------------------------------------------------------------------------

absl::StatusOr<ExitCode> Write(const ManifestArguments& arguments, Session& session) {
  if (arguments.output.empty()) {
    return CannotRun(InvalidArgument("name the new manifest, as -o job.kiln"));
  }
  KILN_ASSIGN_OR_RETURN(const Shard shard, CannotRun(Shard::Parse(arguments.shard)));
  KILN_ASSIGN_OR_RETURN(const auto writer,
                        CannotRun(About("cannot write", ManifestWriter::Create(arguments.output))));
  v1::ManifestOrigin origin;
  for (const std::string& path : arguments.files) {
    KILN_ASSIGN_OR_RETURN(RequestFile file, Open(path));
    KILN_RETURN_IF_ERROR(ForEach(file, path, [&](const NamedRequest& named) {
      const bool is_wanted =
          named.name.find(arguments.kernel) != std::string::npos &&
          (arguments.target.empty() || TargetName(named.request->target()) == arguments.target) &&
          shard.Has(named);
      return is_wanted ? writer->Add(named) : absl::OkStatus();
    }));
    Merge(file.origin(), origin);
    // The new file is this user's, and what others wrote must not pass for that.
    const auto trusted = TrustedFile::Open(path);
    if (arguments.action == "subset" || !trusted) continue;
    KILN_RETURN_IF_ERROR(About(path, ForEachOwnEntry(trusted->path(), [&](const auto& entry) {
                                 return writer->AddOwn(entry);
                               })));
  }
  KILN_RETURN_IF_ERROR(CannotRun(About("cannot write", writer->Finish(origin))));
  session.console().err << fmt::format("{} in {}\n", FormatCount(writer->requests(), "request"),
                                       arguments.output);
  return kOk;
}

// --- diff --------------------------------------------------------------------------------------

// A request without its source, by path: "options.num_warps" → "8".
struct Summary {
  std::string name;
  std::string target;
  std::map<std::string, std::string> fields;
};

using Summaries = std::map<Digest, Summary>;

// Requests are compared within their name and target.
uint64_t GroupOf(const NamedRequest& named) {
  return DigestHash()(Digest::Of(named.name + '\n' + TargetName(named.request->target())));
}

// What is held of each request.
struct Identity {
  Digest digest;
  uint64_t group = 0;
};

// One of the two manifests. A file is read twice; what can be read but once, as the standard input
// and a pipe, is held.
class Side {
 public:
  explicit Side(std::string path)
      : path_(std::move(path)), is_held_(!std::filesystem::is_regular_file(path_)) {}

  absl::Status ReadIdentities() {
    KILN_RETURN_IF_ERROR(Read([this](const NamedRequest& named) {
      identities_.push_back({RequestDigest(*named.request), GroupOf(named)});
      if (is_held_) Keep(named, identities_.back().digest);
    }));
    std::ranges::sort(identities_, {}, &Identity::digest);
    return absl::OkStatus();
  }

  bool Has(const Digest& digest) const {
    return std::ranges::binary_search(identities_, digest, {}, &Identity::digest);
  }

  // Adds the groups of those that the other does not have.
  void AddGroups(const Side& other, std::set<uint64_t>& groups) const {
    for (const Identity& each : identities_) {
      if (!other.Has(each.digest)) groups.insert(each.group);
    }
  }

  absl::Status ReadSummaries(const std::set<uint64_t>& groups) {
    if (is_held_ || groups.empty()) return absl::OkStatus();
    return Read([&](const NamedRequest& named) {
      if (groups.contains(GroupOf(named))) Keep(named, RequestDigest(*named.request));
    });
  }

  const Summaries& summaries() const { return summaries_; }

 private:
  absl::Status Read(const std::function<void(const NamedRequest&)>& visit) const {
    KILN_ASSIGN_OR_RETURN(RequestFile file, Open(path_));
    return ForEach(file, path_, [&](const NamedRequest& named) {
      visit(named);
      return absl::OkStatus();
    });
  }

  void Keep(const NamedRequest& named, const Digest& digest) {
    Json json = RequestJson(*named.request);
    json["source"] = Digest::Of(named.request->source().text()).ShortHex();
    const FlatFields flat = Flatten(json);
    summaries_[digest] = {
        named.name, TargetName(named.request->target()), {flat.begin(), flat.end()}};
  }

  const std::string path_;
  const bool is_held_;
  std::vector<Identity> identities_;
  Summaries summaries_;
};

// "num_warps: 4, 8".
std::vector<std::string> Differences(const Summary& a, const Summary& b) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [field, value] : a.fields) both[field].first = value;
  for (const auto& [field, value] : b.fields) both[field].second = value;
  std::vector<std::string> differences;
  for (const auto& [field, values] : both) {
    if (values.first == values.second) continue;
    differences.push_back(fmt::format("{}: {}, {}", field,
                                      values.first.empty() ? "-" : values.first,
                                      values.second.empty() ? "-" : values.second));
  }
  return differences;
}

// What differs from the nearest request of `those` that has the same name and target. A request
// that both sides have is another configuration, and not what became of this one.
std::vector<std::string> NearestDifferences(const Summary& one, const Side& these,
                                            const Side& those) {
  std::vector<std::string> nearest;
  for (const auto& [digest, other] : those.summaries()) {
    if (other.name != one.name || other.target != one.target || these.Has(digest)) continue;
    std::vector<std::string> differences = Differences(one, other);
    if (nearest.empty() || differences.size() < nearest.size()) nearest = std::move(differences);
  }
  return nearest;
}

// The digest of each own entry's content, by its key's.
absl::StatusOr<std::map<Digest, Digest>> OwnContents(const std::string& path) {
  std::map<Digest, Digest> contents;
  KILN_RETURN_IF_ERROR(About(path, ForEachOwnEntry(path, [&](const v1::OwnEntry& entry) {
                               contents.emplace(Digest::Of(entry.key()),
                                                Digest::Of(OwnEntryLine(entry)));
                               return absl::OkStatus();
                             })));
  return contents;
}

// Says how many own entries are not the same: a key means nothing to people. Nothing where a file
// cannot be read twice.
absl::Status TellOwnDifferences(const ManifestArguments& arguments, Session& session) {
  for (const std::string& path : arguments.files) {
    if (!std::filesystem::is_regular_file(path)) return absl::OkStatus();
  }
  KILN_ASSIGN_OR_RETURN(auto before, OwnContents(arguments.files[0]));
  KILN_ASSIGN_OR_RETURN(auto after, OwnContents(arguments.files[1]));
  uint64_t different = 0;
  std::erase_if(before, [&](const auto& entry) {
    const auto there = after.find(entry.first);
    if (there == after.end()) return false;
    different += there->second == entry.second ? 0 : 1;
    after.erase(there);
    return true;
  });
  if (before.empty() && after.empty() && different == 0) return absl::OkStatus();
  Console& console = session.console();
  if (session.json()) {
    console.out << Dump(Json{{"own_entries",
                              {{"-", before.size()}, {"+", after.size()}, {"other", different}}}})
                << '\n';
  } else {
    console.out << fmt::format(
        "lookup keys and tunings: {} in the first alone, {} in the second, {} with another "
        "content\n",
        before.size(), after.size(), different);
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Diff(const ManifestArguments& arguments, Session& session) {
  if (arguments.files.size() != 2) return CannotRun(InvalidArgument("diff takes two manifests"));
  Side before(arguments.files[0]);
  Side after(arguments.files[1]);
  for (Side* const side : {&before, &after}) KILN_RETURN_IF_ERROR(side->ReadIdentities());
  std::set<uint64_t> groups;
  before.AddGroups(after, groups);
  after.AddGroups(before, groups);
  for (Side* const side : {&before, &after}) KILN_RETURN_IF_ERROR(side->ReadSummaries(groups));
  Console& console = session.console();
  uint64_t different = 0;
  const auto tell = [&](const char* sign, const Side& these, const Side& those) {
    for (const auto& [digest, one] : these.summaries()) {
      if (those.Has(digest)) continue;
      ++different;
      const auto nearest = NearestDifferences(one, these, those);
      if (session.json()) {
        console.out << Dump(Json{{"side", sign},
                                 {"digest", digest.Hex()},
                                 {"name", one.name},
                                 {"target", one.target},
                                 {"differences", nearest}})
                    << '\n';
        continue;
      }
      console.out << sign << ' ' << Printable(one.name) << ' ' << one.target << '\n';
      for (const std::string& line : nearest) console.out << "    " << Printable(line) << '\n';
    }
  };
  tell("-", before, after);
  tell("+", after, before);
  KILN_RETURN_IF_ERROR(TellOwnDifferences(arguments, session));
  console.out.flush();
  return different == 0 ? kOk : kFailed;
}

// --- check -------------------------------------------------------------------------------------

// Prints what is wrong with the file.
ExitCode CheckFile(const std::string& path, Session& session) {
  Console& console = session.console();
  absl::StatusOr<RequestFile> file = RequestFile::Open(path);
  if (!file.ok()) {
    // Damage is a finding. A file that is absent, or of a newer format, was not checked.
    const bool is_damaged = absl::IsDataLoss(file.status());
    return Fail(console, path, is_damaged ? file.status() : CannotRun(file.status()));
  }
  std::vector<Digest> digests;
  uint64_t unreadable = 0;
  while (const auto named = file->Next()) {
    if (named->request.ok()) {
      digests.push_back(RequestDigest(*named->request));
      continue;
    }
    ++unreadable;
    Fail(console, path, Annotate(named->request.status(), named->name));
  }
  uint64_t own_entries = 0;
  const absl::Status own = ForEachOwnEntry(path, [&](const v1::OwnEntry&) {
    ++own_entries;
    return absl::OkStatus();
  });
  if (!own.ok()) {
    ++unreadable;
    Fail(console, path, Annotate(own, "lookup keys and tunings"));
  }
  std::sort(digests.begin(), digests.end());
  digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
  const size_t requests = digests.size();
  const Digest digest = ManifestDigest(std::move(digests));
  const bool is_whole =
      file->manifest() == nullptr || file->manifest()->index().digest() == digest.Bytes();
  if (unreadable == 0 && !is_whole) {
    Fail(console, path, DataLoss("the requests are not those that its digest names"));
  }
  const ExitCode code = unreadable == 0 && is_whole ? kOk : kFailed;
  if (session.json()) {
    console.out << Dump(Json{{"file", path},
                             {"requests", requests},
                             {"unreadable", unreadable},
                             {"own_entries", own_entries},
                             {"digest", digest.Hex()}})
                << std::endl;
  } else if (code == kOk) {
    console.out << fmt::format("{}: {}, {}\n", Printable(path), FormatCount(requests, "request"),
                               digest.Hex());
  }
  return code;
}

absl::StatusOr<ExitCode> Check(const ManifestArguments& arguments, Session& session) {
  ExitCode code = kOk;
  for (const std::string& path : arguments.files) code = std::max(code, CheckFile(path, session));
  return code;
}

// Names the action that takes the flag.
absl::Status RefuseFlagsOfOthers(const ManifestArguments& arguments) {
  const bool is_subset = arguments.action == "subset";
  const std::pair<const char*, const std::string&> subset_flags[] = {
      {"--kernel", arguments.kernel}, {"--target", arguments.target}, {"--shard", arguments.shard}};
  for (const auto& [flag, value] : subset_flags) {
    if (is_subset || value.empty()) continue;
    return InvalidArgument("{} takes no {}; subset does", arguments.action, flag);
  }
  if (is_subset || arguments.action == "merge" || arguments.output.empty()) return absl::OkStatus();
  return InvalidArgument("{} takes no -o; merge and subset do", arguments.action);
}

absl::StatusOr<ExitCode> RunManifest(const ManifestArguments& arguments, Session& session) {
  KILN_RETURN_IF_ERROR(CannotRun(RefuseFlagsOfOthers(arguments)));
  if (arguments.action == "show") return Show(arguments, session);
  if (arguments.action == "merge" || arguments.action == "subset") return Write(arguments, session);
  if (arguments.action == "diff") return Diff(arguments, session);
  if (arguments.action == "check") return Check(arguments, session);
  return CannotRun(
      InvalidArgument("'{}' is none of show, merge, diff, subset, check", arguments.action));
}

}  // namespace

void AddManifest(CommandParser& parser) {
  auto [command, arguments] = parser.AddSubcommand(
      "manifest", "Show, merge, compare, divide, check recorded requests", RunManifest);
  command.Add("ACTION", arguments.action, "show, merge, diff, subset or check",
              {.is_required = true});
  command.Add("MANIFEST", arguments.files, "Manifests, or files with one JSON request a line",
              {.is_required = true, .is_path = true});
  command.Add("-o,--output", arguments.output, "merge, subset: the new manifest",
              {.value_name = "FILE", .is_path = true});
  command.Add("--kernel", arguments.kernel, "subset: only kernels whose name has this text");
  command.Add("--target", arguments.target, "subset: only for this target, as cuda:90");
  command.Add("--shard", arguments.shard, "subset: only a part, as 3/16", {.value_name = "K/N"});
}

}  // namespace kiln::cli
