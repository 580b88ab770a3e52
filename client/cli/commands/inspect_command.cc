#include <nlohmann/json.hpp>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/errors.h"
#include "client/cli/commands/keys.h"
#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/json.h"
#include "client/cli/output/table.h"
#include "client/rpc/admin_client.h"
#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

struct InspectArguments {
  std::string key_prefix;
};

std::string Age(int64_t unix_ms) {
  const std::string age = FormatAge(unix_ms, SystemClock().UnixMillis());
  return unix_ms == 0 ? age : age + " ago";
}

std::string Micros(uint64_t micros) {
  return FormatDuration(std::chrono::microseconds(static_cast<int64_t>(micros)));
}

std::string ForWhom(const admin::v1::ArtifactSummary& summary) {
  if (!summary.has_uid()) return "";
  return fmt::format("uid {}{}{}", summary.uid(), summary.job().empty() ? "" : ", job ",
                     summary.job());
}

void PrintArtifact(Console& console, const admin::v1::InspectArtifactResponse& found) {
  const admin::v1::ArtifactSummary& summary = found.summary();
  PrintFields(console, "Artifact",
              {{"key", Hex(summary.key())},
               {"target", TargetName(summary.target())},
               {"options", summary.options()},
               {"compiled for", ForWhom(summary)},
               {"size", FormatBytes(summary.size_bytes())},
               {"made", Age(summary.created_unix_ms())},
               {"last use", Age(summary.last_use_unix_ms())},
               {"hits", std::to_string(summary.hits())},
               {"pinned", summary.pinned() ? "yes" : "no"}});
}

void PrintKernel(Console& console, const v1::KernelMetadata& metadata) {
  std::string parameters;
  for (const v1::KernelParameter& parameter : metadata.parameters()) {
    parameters += fmt::format("{}{}{}{}", parameters.empty() ? "" : ", ", parameter.name(),
                              parameter.name().empty() ? "" : ": ", parameter.type());
  }
  PrintFields(console, "Kernel",
              {{"entry point", metadata.name()},
               {"parameters", parameters},
               {"hidden pointers", std::to_string(metadata.hidden_pointers())},
               {"warps", std::to_string(metadata.num_warps())},
               {"CTAs per cluster", std::to_string(metadata.num_ctas())},
               {"shared memory", FormatBytes(static_cast<uint64_t>(metadata.shared_bytes()))},
               {"registers", metadata.has_registers() ? std::to_string(metadata.registers()) : ""},
               {"spilled", metadata.has_spill_bytes()
                               ? FormatBytes(static_cast<uint64_t>(metadata.spill_bytes()))
                               : ""}});
}

void PrintOrigin(Console& console, const v1::Provenance& provenance) {
  PrintFields(console, "Compiled",
              {{"by", provenance.toolchain()},
               {"fingerprint", Hex(provenance.toolchain_fingerprint())},
               {"assembler", provenance.assembler()},
               {"Kiln", provenance.kiln_version()},
               {"on", provenance.host()},
               {"in", Micros(provenance.compile_micros())}});
}

void PrintStages(Console& console, const admin::v1::InspectArtifactResponse& found) {
  Fields stages;
  for (const v1::StageBlob& stage : found.stages()) {
    stages.emplace_back(stage.stage(), fmt::format("{} sha256:{}", FormatBytes(stage.size_bytes()),
                                                   Hex(stage.digest())));
  }
  PrintFields(console, "Stages", stages);
  Fields timings;
  for (const v1::StageTiming& timing : found.timings()) {
    timings.emplace_back(timing.stage(), Micros(timing.micros()));
  }
  PrintFields(console, "Time", timings);
}

// The fields of the summary, then the other parts.
Json Describe(const admin::v1::InspectArtifactResponse& found) {
  Json json = ToJson(found.summary());
  Json parts = ToJson(found);
  parts.erase("summary");
  json.update(parts);
  return json;
}

absl::StatusOr<ExitCode> RunInspect(const InspectArguments& arguments, Session& session) {
  Console& console = session.console();
  KILN_RETURN_IF_ERROR(CannotRun(CheckKey(arguments.key_prefix)));
  KILN_ASSIGN_OR_RETURN(const auto admin, session.ConnectAdmin());
  KILN_ASSIGN_OR_RETURN(const Digest key,
                        About(arguments.key_prefix, ResolveKey(*admin, arguments.key_prefix,
                                                               session.Call(kQuestionTime))));
  admin::v1::InspectArtifactRequest request;
  request.set_key_prefix(key.Hex());
  KILN_ASSIGN_OR_RETURN(
      const auto found,
      About(arguments.key_prefix, admin->InspectArtifact(session.Call(kQuestionTime), request)));
  if (session.json()) {
    console.out << Dump(Describe(found)) << std::endl;
  } else if (!console.aligned) {
    PrintTabbed(console, Flatten(Describe(found)));
  } else {
    PrintArtifact(console, found);
    PrintKernel(console, found.metadata());
    PrintOrigin(console, found.provenance());
    PrintStages(console, found);
  }
  return kOk;
}

}  // namespace

void AddInspect(CommandParser& parser) {
  auto [command, arguments] =
      parser.AddSubcommand("inspect", "Show everything that is known of one artifact", RunInspect);
  command.Add("KEY", arguments.key_prefix, kKeyHelp, {.is_required = true});
}

}  // namespace kiln::cli
