#include "client/cli/output/json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "client/cli/output/enum_names.h"
#include "client/cli/output/format.h"
#include "client/cli/output/parse_json.h"

namespace kiln::cli {
namespace {

template <typename Messages>
Json ToArray(const Messages& messages) {
  Json array = Json::array();
  for (const auto& message : messages) array.push_back(ToJson(message));
  return array;
}

Json Describe(const admin::v1::ArtifactSummary& summary) {
  Json json = {{"key", Hex(summary.key())},
               {"name", summary.name()},
               {"target", summary.has_target() ? TargetName(summary.target()) : ""},
               {"toolchain", summary.toolchain()},
               {"size_bytes", summary.size_bytes()},
               {"created_unix_ms", summary.created_unix_ms()},
               {"last_use_unix_ms", summary.last_use_unix_ms()},
               {"hits", summary.hits()},
               {"pinned", summary.pinned()},
               {"compile_micros", summary.compile_micros()}};
  if (summary.has_own_uid()) json["own_uid"] = summary.own_uid();
  return json;
}

Json Describe(const admin::v1::InspectArtifactResponse& found) {
  Json json = Describe(found.summary());
  json["metadata"] = ToJson(found.metadata());
  json["stages"] = ToJson(found.stages());
  json["timings"] = ToJson(found.timings());
  json["provenance"] = ToJson(found.provenance());
  return json;
}

Json Describe(const admin::v1::GetStatsResponse& stats) {
  Json json;
  json["version"] = stats.version();
  json["started_unix_ms"] = stats.started_unix_ms();
  json["state"] = stats.state();
  json["state_reason"] = stats.state_reason();
  json["compile_path"] = stats.compile_path();
  json["store"] = stats.store();
  json["requests"] = stats.requests();
  json["hits_memory"] = stats.hits_memory();
  json["hits_disk"] = stats.hits_disk();
  json["hits_remote"] = stats.hits_remote();
  json["joined"] = stats.joined();
  json["compiled"] = stats.compiled();
  json["failed"] = stats.failed();
  json["rejected"] = stats.rejected();
  json["not_found"] = stats.not_found();
  json["abandoned"] = stats.abandoned();
  json["errors"] = stats.errors();
  json["in_flight"] = stats.in_flight();
  json["artifacts"] = stats.artifacts();
  json["store_bytes"] = stats.store_bytes();
  json["store_bytes_max"] = stats.store_bytes_max();
  json["evicted"] = stats.evicted();
  json["quarantined"] = stats.quarantined();
  json["free_disk_bytes"] = stats.free_disk_bytes();
  json["hot_bytes"] = stats.hot_bytes();
  json["hot_files"] = stats.hot_files();
  json["own_users"] = stats.own_users();
  json["own_entries"] = stats.own_entries();
  json["own_bytes"] = stats.own_bytes();
  json["queued"] = stats.queued();
  json["queued_bytes"] = stats.queued_bytes();
  json["queued_by_priority"] = stats.queued_by_priority();
  json["running"] = stats.running();
  json["workers"] = stats.workers();
  json["workers_started"] = stats.workers_started();
  json["workers_killed"] = stats.workers_killed();
  json["workers_crashed"] = stats.workers_crashed();
  json["compile_cpu_micros"] = stats.compile_cpu_micros();
  json["workers_aborted"] = stats.workers_aborted();
  json["workers_idled"] = stats.workers_idled();
  json["zygotes_replaced"] = stats.zygotes_replaced();
  json["sources_quarantined"] = stats.sources_quarantined();
  json["quarantine_refusals"] = stats.quarantine_refusals();
  json["audits_waiting"] = stats.audits_waiting();
  json["audits_same"] = stats.audits_same();
  json["audits_differed"] = stats.audits_differed();
  json["audits_nondeterministic"] = stats.audits_nondeterministic();
  json["audits_given_up"] = stats.audits_given_up();
  json["running_max"] = stats.running_max();
  json["held_back"] = stats.held_back();
  json["expected_memory_bytes"] = stats.expected_memory_bytes();
  if (stats.has_available_memory_bytes()) {
    json["available_memory_bytes"] = stats.available_memory_bytes();
  }
  json["memory_pressure_percent"] = stats.memory_pressure_percent();
  json["toolchains_changed"] = stats.toolchains_changed();
  json["toolchain_change"] = stats.toolchain_change();
  json["connections"] = stats.connections();
  json["jail"] = stats.jail();
  json["jail_problems"] = stats.jail_problems();
  json["plain_limits"] = stats.plain_limits();
  json["toolchains"] = Json::array();
  for (const auto& toolchain : stats.toolchains()) {
    json["toolchains"].push_back({{"name", toolchain.name()},
                                  {"fingerprint", Hex(toolchain.fingerprint())},
                                  {"state", toolchain.state()},
                                  {"workers", toolchain.workers()},
                                  {"compiles", toolchain.compiles()},
                                  {"queued", toolchain.queued()}});
  }
  return json;
}

void AppendFlat(const std::string& name, const Json& json, FlatFields& fields) {
  const auto inside = [&](const std::string& part) {
    return name.empty() ? part : fmt::format("{}.{}", name, part);
  };
  if (json.is_object()) {
    for (const auto& [part, value] : json.items()) AppendFlat(inside(part), value, fields);
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) AppendFlat(inside(std::to_string(i)), json[i], fields);
  } else if (!json.is_null() && json != "") {
    fields.emplace_back(name, json.is_string() ? json.get<std::string>() : Dump(json));
  }
}

}  // namespace

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DumpPretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string DumpFields(const JsonFields& fields) {
  Json json = Json::object();
  for (const auto& [name, value] : fields) {
    std::visit([&json, name = name](const auto& scalar) { json[std::string(name)] = scalar; },
               value);
  }
  return Dump(json);
}

FlatFields Flatten(const Json& json) {
  FlatFields fields;
  AppendFlat("", json, fields);
  return fields;
}

FlatFields Flatten(const admin::v1::InspectArtifactResponse& found) {
  return Flatten(Describe(found));
}

FlatFields Flatten(const admin::v1::GetStatsResponse& stats) { return Flatten(Describe(stats)); }

absl::StatusOr<int64_t> ToInt64(const Json& json) {
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return InvalidArgument("{} does not fit in 64 bits with a sign", json.get<uint64_t>());
  }
  return json.get<int64_t>();
}

Json ToJson(const v1::KernelMetadata& metadata) {
  Json json;
  json["name"] = metadata.name();
  json["target"] = TargetName(metadata.target());
  json["shared_bytes"] = metadata.shared_bytes();
  json["num_warps"] = metadata.num_warps();
  json["num_ctas"] = metadata.num_ctas();
  json["warp_size"] = metadata.warp_size();
  json["global_scratch_bytes"] = metadata.global_scratch_bytes();
  json["global_scratch_align"] = metadata.global_scratch_align();
  json["profile_scratch_bytes"] = metadata.profile_scratch_bytes();
  json["profile_scratch_align"] = metadata.profile_scratch_align();
  json["tensor_memory_columns"] = metadata.tensor_memory_columns();
  json["cluster_dims"] = metadata.cluster_dims();
  json["launch_pdl"] = metadata.launch_pdl();
  json["launch_cooperative_grid"] = metadata.launch_cooperative_grid();
  if (metadata.has_registers()) json["registers"] = metadata.registers();
  if (metadata.has_spill_bytes()) json["spill_bytes"] = metadata.spill_bytes();
  json["parameters"] = Json::array();
  for (const v1::KernelParameter& parameter : metadata.parameters()) {
    json["parameters"].push_back({{"name", parameter.name()}, {"type", parameter.type()}});
  }
  json["hidden_pointers"] = metadata.hidden_pointers();
  json["tensor_descriptors"] = Json::array();
  for (const v1::TensorDescriptorMetadata& descriptor : metadata.tensor_descriptors()) {
    json["tensor_descriptors"].push_back({{"swizzle", descriptor.swizzle()},
                                          {"elem_size", descriptor.elem_size()},
                                          {"elem_type", descriptor.elem_type()},
                                          {"block_size", descriptor.block_size()},
                                          {"fp4_padded", descriptor.fp4_padded()}});
  }
  if (!metadata.toolchain_metadata().empty()) {
    // Verbatim where it is not the JSON that it should be.
    const auto parsed = ParseJson(metadata.toolchain_metadata());
    json["toolchain_metadata"] = parsed.ok() ? *parsed : Json(metadata.toolchain_metadata());
  }
  return json;
}

Json ToJson(const v1::Provenance& provenance) {
  return {{"toolchain", provenance.toolchain()},
          {"toolchain_fingerprint", Hex(provenance.toolchain_fingerprint())},
          {"assembler", provenance.assembler()},
          {"kiln_version", provenance.kiln_version()},
          {"host", provenance.host()},
          {"compiled_unix_ms", provenance.compiled_unix_ms()},
          {"compile_micros", provenance.compile_micros()}};
}

Json ToJson(const v1::StageBlob& stage) {
  return {{"stage", stage.stage()},
          {"digest", Hex(stage.digest())},
          {"size_bytes", stage.size_bytes()}};
}

Json ToJson(const v1::StageTiming& timing) {
  return {{"stage", timing.stage()}, {"micros", timing.micros()}};
}

Json ToJson(const v1::CompileNote& note) {
  return {{"file", note.file()},
          {"line", note.line()},
          {"column", note.column()},
          {"message", note.message()}};
}

Json ToJson(const v1::CompileDiagnostics& diagnostics) {
  return {{"stage", diagnostics.stage()},
          {"message", diagnostics.message()},
          {"line", diagnostics.line()},
          {"column", diagnostics.column()},
          {"notes", ToArray(diagnostics.notes())},
          {"output", diagnostics.output()}};
}

Json ToJson(const google::protobuf::RepeatedPtrField<v1::StageBlob>& stages) {
  return ToArray(stages);
}

Json ToJson(const google::protobuf::RepeatedPtrField<v1::StageTiming>& timings) {
  return ToArray(timings);
}

std::string Dump(const admin::v1::ArtifactSummary& summary) { return Dump(Describe(summary)); }

std::string Dump(const admin::v1::InspectArtifactResponse& found) { return Dump(Describe(found)); }

std::string Dump(const admin::v1::GetStatsResponse& stats) { return Dump(Describe(stats)); }

}  // namespace kiln::cli
