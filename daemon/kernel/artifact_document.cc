#include "daemon/kernel/artifact_document.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/kernel/metadata_fields.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFormat = 1;

template <typename T>
bool Assign(const Json& json, T& out);

template <>
bool Assign(const Json& json, int64_t& out) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return false;
  }
  out = json.get<int64_t>();
  return true;
}
template <>
bool Assign(const Json& json, uint64_t& out) {
  if (!json.is_number_unsigned()) return false;
  out = json.get<uint64_t>();
  return true;
}
template <>
bool Assign(const Json& json, bool& out) {
  if (!json.is_boolean()) return false;
  out = json.get<bool>();
  return true;
}
template <>
bool Assign(const Json& json, std::string& out) {
  if (!json.is_string()) return false;
  out = json.get_ref<const std::string&>();
  return true;
}
template <>
bool Assign(const Json& json, Digest& out) {
  if (!json.is_string()) return false;
  const absl::StatusOr<Digest> digest = Digest::FromHex(json.get_ref<const std::string&>());
  if (digest.ok()) out = *digest;
  return digest.ok();
}
template <>
bool Assign(const Json& json, std::array<int64_t, 3>& out) {
  return json.is_array() && json.size() == 3 && Assign(json[0], out[0]) &&
         Assign(json[1], out[1]) && Assign(json[2], out[2]);
}
template <>
bool Assign(const Json& json, std::optional<int64_t>& out) {
  if (json.is_null()) return true;
  out.emplace();
  return Assign(json, *out);
}
template <>
bool Assign(const Json& json, std::vector<int64_t>& out) {
  if (!json.is_array()) return false;
  out.resize(json.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!Assign(json[i], out[i])) return false;
  }
  return true;
}

// Reads the fields of one JSON object. Remembers the first thing that is wrong; Finish also refuses
// fields that nobody read.
class ObjectReader {
 public:
  ObjectReader(const Json& json, std::string_view what) : json_(json), what_(what) {
    if (!json.is_object()) Fail("is not an object");
  }

  template <typename T>
  ObjectReader& Read(const char* name, T& out) {
    const Json* value = Take(name);
    if (value != nullptr && !Assign(*value, out)) Fail(fmt::format(".{} has a wrong value", name));
    return *this;
  }
  // Reads an array of objects, each with `read(reader, item)`.
  template <typename T, typename ReadItem>
  ObjectReader& ReadList(const char* name, std::vector<T>& out, ReadItem read) {
    const Json* list = Take(name);
    if (list == nullptr) return *this;
    if (!list->is_array()) Fail(fmt::format(".{} is not an array", name));
    for (const Json& element : *list) {
      ObjectReader reader(element, name);
      read(reader, out.emplace_back());
      Adopt(reader.Finish());
    }
    return *this;
  }
  template <typename T, typename ReadItem>
  ObjectReader& ReadObject(const char* name, T& out, ReadItem read) {
    if (const Json* value = Take(name)) {
      ObjectReader reader(*value, name);
      read(reader, out);
      Adopt(reader.Finish());
    }
    return *this;
  }

  absl::Status Finish() {
    if (status_.ok() && taken_ != json_.size()) Fail("has fields that are not known");
    return status_;
  }

 private:
  const Json* Take(const char* name) {
    if (!status_.ok()) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end()) {
      Fail(fmt::format(".{} is missing", name));
      return nullptr;
    }
    ++taken_;
    return &*found;
  }
  void Fail(std::string_view why) { Adopt(DataLoss("artifact document: {}{}", what_, why)); }
  void Adopt(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  const Json& json_;
  const std::string_view what_;
  size_t taken_ = 0;
  absl::Status status_;
};

Json WriteTarget(const Target& target) {
  return {{"backend", target.backend},
          {"architecture", target.architecture},
          {"warp_size", target.warp_size}};
}

void ReadTarget(ObjectReader& reader, Target& target) {
  int64_t warp_size = 0;
  reader.Read("backend", target.backend)
      .Read("architecture", target.architecture)
      .Read("warp_size", warp_size);
  target.warp_size = static_cast<int>(warp_size);
}

Json WriteDescriptors(const std::vector<TensorDescriptorMetadata>& descriptors) {
  Json list = Json::array();
  for (const TensorDescriptorMetadata& descriptor : descriptors) {
    list.push_back({{"swizzle", descriptor.swizzle},
                    {"elem_size", descriptor.elem_size},
                    {"elem_type", descriptor.elem_type},
                    {"block_size", descriptor.block_size},
                    {"fp4_padded", descriptor.fp4_padded}});
  }
  return list;
}

void ReadDescriptor(ObjectReader& reader, TensorDescriptorMetadata& descriptor) {
  reader.Read("swizzle", descriptor.swizzle)
      .Read("elem_size", descriptor.elem_size)
      .Read("elem_type", descriptor.elem_type)
      .Read("block_size", descriptor.block_size)
      .Read("fp4_padded", descriptor.fp4_padded);
}

Json WriteParameters(const std::vector<KernelParameter>& parameters) {
  Json list = Json::array();
  for (const KernelParameter& parameter : parameters) {
    list.push_back({{"name", parameter.name}, {"type", parameter.type}});
  }
  return list;
}

Json WriteValue(int64_t value) { return value; }
Json WriteValue(bool value) { return value; }
Json WriteValue(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

Json WriteMetadata(const KernelMetadata& metadata) {
  Json json = {{"name", metadata.name},
               {"target", WriteTarget(metadata.target)},
               {"cluster_dims", metadata.cluster_dims},
               {"tensor_descriptors", WriteDescriptors(metadata.tensor_descriptors)},
               {"parameters", WriteParameters(metadata.parameters)},
               {"toolchain_metadata", metadata.toolchain_metadata}};
  ForEachField(metadata, [&json](const char* name, const auto& value, uint64_t /*max*/) {
    json[name] = WriteValue(value);
  });
  return json;
}

void ReadMetadata(ObjectReader& reader, KernelMetadata& metadata) {
  reader.Read("name", metadata.name)
      .ReadObject("target", metadata.target, ReadTarget)
      .Read("cluster_dims", metadata.cluster_dims)
      .ReadList("tensor_descriptors", metadata.tensor_descriptors, ReadDescriptor)
      .ReadList("parameters", metadata.parameters,
                [](ObjectReader& item, KernelParameter& parameter) {
                  item.Read("name", parameter.name).Read("type", parameter.type);
                })
      .Read("toolchain_metadata", metadata.toolchain_metadata);
  ForEachField(metadata, [&reader](const char* name, auto& value, uint64_t /*max*/) {
    reader.Read(name, value);
  });
}

Json WriteTimings(const std::vector<StageTiming>& timings) {
  Json list = Json::array();
  for (const StageTiming& timing : timings) {
    list.push_back({{"stage", timing.stage}, {"micros", timing.micros}});
  }
  return list;
}

Json WriteProvenance(const Provenance& provenance) {
  return {{"toolchain", provenance.toolchain},
          {"toolchain_fingerprint", provenance.toolchain_fingerprint.Hex()},
          {"assembler", provenance.assembler},
          {"kiln_version", provenance.kiln_version},
          {"host", provenance.host},
          {"compiled_unix_ms", provenance.compiled_unix_ms},
          {"compile_micros", provenance.compile_micros}};
}

void ReadProvenance(ObjectReader& reader, Provenance& provenance) {
  reader.Read("toolchain", provenance.toolchain)
      .Read("toolchain_fingerprint", provenance.toolchain_fingerprint)
      .Read("assembler", provenance.assembler)
      .Read("kiln_version", provenance.kiln_version)
      .Read("host", provenance.host)
      .Read("compiled_unix_ms", provenance.compiled_unix_ms)
      .Read("compile_micros", provenance.compile_micros);
}

absl::Status CheckFormat(const Json& json) {
  int64_t format = 0;
  if (!json.is_object() || !json.contains("format") || !Assign(json["format"], format)) {
    return DataLoss("artifact document: not a JSON object with a format");
  }
  if (format == kFormat) return absl::OkStatus();
  return FailedPrecondition("artifact document: format {}, this program reads {}", format, kFormat);
}

}  // namespace

std::string WriteDocument(const Artifact& artifact) {
  const Json json = {{"format", kFormat},
                     {"metadata", WriteMetadata(artifact.metadata)},
                     {"timings", WriteTimings(artifact.timings)},
                     {"provenance", WriteProvenance(artifact.provenance)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<ArtifactDocument> ParseDocument(std::string_view text) {
  if (text.size() > limits::kRecordBytesMax) {
    return DataLoss("artifact document: {} bytes, at most {} are read", text.size(),
                    limits::kRecordBytesMax);
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  KILN_RETURN_IF_ERROR(CheckFormat(json));
  ArtifactDocument document;
  int64_t format = 0;
  ObjectReader reader(json, "");
  reader.Read("format", format)
      .ReadObject("metadata", document.metadata, ReadMetadata)
      .ReadList("timings", document.timings,
                [](ObjectReader& item, StageTiming& timing) {
                  item.Read("stage", timing.stage).Read("micros", timing.micros);
                })
      .ReadObject("provenance", document.provenance, ReadProvenance);
  KILN_RETURN_IF_ERROR(reader.Finish());
  return document;
}

ArtifactRecord MakeRecord(const Artifact& artifact) {
  ArtifactRecord record;
  record.key = artifact.key;
  record.document = WriteDocument(artifact);
  for (const StageBlob& stage : artifact.stages) {
    record.stages.push_back({stage.stage, stage.blob.digest(), stage.blob.size_bytes()});
  }
  record.compile_micros = artifact.provenance.compile_micros;
  record.created_unix_ms = artifact.provenance.compiled_unix_ms;
  return record;
}

}  // namespace kiln
