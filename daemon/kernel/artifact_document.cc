#include "daemon/kernel/artifact_document.h"

#include <nlohmann/json.hpp>

#include "daemon/kernel/metadata_fields.h"
#include "storage/base/limits.h"

template <>
struct nlohmann::adl_serializer<std::optional<int64_t>> {
  static void to_json(json& json, const std::optional<int64_t>& value) {
    json = value ? nlohmann::json(*value) : nlohmann::json();
  }
  static void from_json(const json& json, std::optional<int64_t>& value) {
    if (!json.is_null()) value = json.get<int64_t>();
  }
};

namespace kiln {

// How each type looks in a document. nlohmann::json finds these by their names.
static void to_json(nlohmann::json& json, const Digest& digest) { json = digest.Hex(); }
static void from_json(const nlohmann::json& json, Digest& digest) {
  digest = Digest::FromHex(json.get_ref<const std::string&>()).value_or(Digest());
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Target, backend, architecture, warp_size)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorDescriptorMetadata, swizzle, elem_size, elem_type,
                                   block_size, fp4_padded)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelParameter, name, type)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StageTiming, stage, micros)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Provenance, toolchain, toolchain_fingerprint, assembler,
                                   kiln_version, host, compiled_unix_ms, compile_micros)

static void to_json(nlohmann::json& json, const KernelMetadata& metadata) {
  json = {{"name", metadata.name},
          {"target", metadata.target},
          {"cluster_dims", metadata.cluster_dims},
          {"tensor_descriptors", metadata.tensor_descriptors},
          {"parameters", metadata.parameters},
          {"toolchain_metadata", metadata.toolchain_metadata}};
  ForEachField(metadata, [&json](const char* name, const auto& value, uint64_t /*max*/) {
    json[name] = value;
  });
}

static void from_json(const nlohmann::json& json, KernelMetadata& metadata) {
  json.at("name").get_to(metadata.name);
  json.at("target").get_to(metadata.target);
  json.at("cluster_dims").get_to(metadata.cluster_dims);
  json.at("tensor_descriptors").get_to(metadata.tensor_descriptors);
  json.at("parameters").get_to(metadata.parameters);
  json.at("toolchain_metadata").get_to(metadata.toolchain_metadata);
  ForEachField(metadata, [&json](const char* name, auto& value, uint64_t /*max*/) {
    json.at(name).get_to(value);
  });
}

namespace {

constexpr int64_t kFormat = 1;

nlohmann::json DocumentJson(const ArtifactDocument& document) {
  return {{"format", kFormat},
          {"metadata", document.metadata},
          {"timings", document.timings},
          {"provenance", document.provenance}};
}

absl::Status CheckFormat(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer()) {
    return DataLoss("artifact document: not a JSON object with a format");
  }
  if (json["format"] == kFormat) return absl::OkStatus();
  return FailedPrecondition("artifact document: format {}, this program reads {}",
                            json["format"].dump(), kFormat);
}

absl::StatusOr<ArtifactDocument> FromText(std::string_view text, nlohmann::json& json) {
  if (text.size() > limits::kRecordBytesMax) {
    return DataLoss("artifact document: {} bytes, at most {} are read", text.size(),
                    limits::kRecordBytesMax);
  }
  json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  KILN_RETURN_IF_ERROR(CheckFormat(json));
  ArtifactDocument document;
  try {
    json.at("metadata").get_to(document.metadata);
    json.at("timings").get_to(document.timings);
    json.at("provenance").get_to(document.provenance);
  } catch (const nlohmann::json::exception& error) {
    return DataLoss("artifact document: {}", error.what());
  }
  return document;
}

}  // namespace

std::string WriteDocument(const ArtifactDocument& document) {
  return DocumentJson(document).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<ArtifactDocument> ReadDocument(std::string_view text) {
  nlohmann::json json;
  return FromText(text, json);
}

absl::StatusOr<ArtifactDocument> ParseDocument(std::string_view text) {
  nlohmann::json json;
  KILN_ASSIGN_OR_RETURN(ArtifactDocument document, FromText(text, json));
  // The library converts numbers as C++ does and passes over fields that it does not know.
  const std::string same = WriteDocument(document);
  if (same == text || same == json.dump()) return document;
  return DataLoss("artifact document: a field is not known, or its value is none of its type");
}

ArtifactRecord MakeRecord(const Artifact& artifact) {
  ArtifactRecord record;
  record.key = artifact.key;
  record.name = artifact.metadata.name;
  record.document = WriteDocument(artifact);
  if (const std::string* description = artifact.description.Get()) {
    record.description = kDescriptionVersion + *description;
  }
  for (const StageBlob& stage : artifact.stages) {
    record.stages.push_back({stage.stage, stage.blob.digest(), stage.blob.size_bytes()});
  }
  record.compile_micros = artifact.provenance.compile_micros;
  record.created_unix_ms = artifact.provenance.compiled_unix_ms;
  return record;
}

}  // namespace kiln
