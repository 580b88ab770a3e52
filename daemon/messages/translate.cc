#include "daemon/messages/translate.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <utility>

#include "daemon/kernel/compile_notes.h"
#include "daemon/kernel/metadata_fields.h"
#include "daemon/messages/text.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

// Enumerators have the same numbers on both sides, or begin with 0 here and with 1 on the wire.
static_assert(static_cast<int>(SourceKind::kTtir) == v1::SOURCE_KIND_TTIR);
static_assert(static_cast<int>(SourceKind::kCudaCxx) == v1::SOURCE_KIND_CUDA_CXX);
static_assert(static_cast<int>(SourceKind::kPtx) == v1::SOURCE_KIND_PTX);
static_assert(static_cast<int>(SourceKind::kTtgir) == v1::SOURCE_KIND_TTGIR);
static_assert(static_cast<int>(SourceKind::kOpenCl) == v1::SOURCE_KIND_OPENCL);
static_assert(v1::SourceKind_MAX == v1::SOURCE_KIND_OPENCL);
static_assert(static_cast<int>(CachePolicy::kRefresh) == v1::CACHE_POLICY_REFRESH);
static_assert(static_cast<int>(CachePolicy::kOnlyIfCached) == v1::CACHE_POLICY_ONLY_IF_CACHED);
static_assert(v1::CachePolicy_MAX == v1::CACHE_POLICY_ONLY_IF_CACHED);
static_assert(static_cast<int>(Priority::kAutotune) + 1 == v1::PRIORITY_AUTOTUNE);
static_assert(static_cast<int>(Priority::kWarm) + 1 == v1::PRIORITY_WARM);
static_assert(static_cast<int>(Priority::kBackground) + 1 == v1::Priority_MAX);
static_assert(static_cast<int>(Tier::kDisk) + 1 == v1::Tier_MAX);

// An enumeration's value must be one that this daemon was built with.
template <typename Enum>
absl::Status CheckKnown(std::string_view field, Enum value) {
  const auto* known = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  if (known != nullptr) return absl::OkStatus();
  return InvalidArgument(
      "{} = {}: this daemon does not know that value; the client may be newer than the daemon",
      field, static_cast<int>(value));
}

absl::StatusOr<SourceKind> ToSourceKind(v1::SourceKind kind) {
  KILN_RETURN_IF_ERROR(CheckKnown("source.kind", kind));
  if (kind != v1::SOURCE_KIND_UNSPECIFIED) return static_cast<SourceKind>(kind);
  return InvalidArgument("source.kind is missing: say which language source.text is in");
}

absl::StatusOr<OptionValue> ToOptionValue(v1::OptionValue&& value, size_t depth = 0) {
  if (depth > limits::kOptionDepthMax) {
    return InvalidArgument("tuples are nested deeper than {} levels", limits::kOptionDepthMax);
  }
  switch (value.value_case()) {
    case v1::OptionValue::kBoolValue:
      return OptionValue{value.bool_value()};
    case v1::OptionValue::kIntValue:
      return OptionValue{int64_t{value.int_value()}};
    case v1::OptionValue::kDoubleValue:
      return OptionValue{value.double_value()};
    case v1::OptionValue::kStringValue:
      return OptionValue{std::move(*value.mutable_string_value())};
    case v1::OptionValue::kTupleValue: {
      OptionTuple tuple;
      tuple.reserve(static_cast<size_t>(value.tuple_value().items_size()));
      for (v1::OptionValue& item : *value.mutable_tuple_value()->mutable_items()) {
        KILN_ASSIGN_OR_RETURN(OptionValue converted, ToOptionValue(std::move(item), depth + 1));
        tuple.push_back(std::move(converted));
      }
      return OptionValue{std::move(tuple)};
    }
    default:
      return InvalidArgument(
          "has no value, or one of a kind that this daemon does not know; leave an option out to "
          "take its default");
  }
}

absl::StatusOr<Parameter> ToParameter(v1::Parameter&& parameter) {
  Parameter converted;
  converted.name = std::move(*parameter.mutable_name());
  converted.type = std::move(*parameter.mutable_type());
  converted.attributes.insert(parameter.attributes().begin(), parameter.attributes().end());
  if (parameter.has_constant()) {
    auto constant = ToOptionValue(std::move(*parameter.mutable_constant()));
    if (!constant.ok()) {
      return Annotate(constant.status(),
                      fmt::format("specialization.parameters \"{}\".constant", converted.name));
    }
    converted.constant = *std::move(constant);
  }
  return converted;
}

absl::StatusOr<LaunchParameters> ToLaunchParameters(const v1::LaunchParameters& launch) {
  LaunchParameters converted;
  if (launch.has_num_warps()) converted.num_warps = launch.num_warps();
  if (launch.has_num_stages()) converted.num_stages = launch.num_stages();
  if (launch.has_num_ctas()) converted.num_ctas = launch.num_ctas();
  if (launch.has_maxnreg()) converted.maxnreg = launch.maxnreg();
  if (launch.has_launch_pdl()) converted.launch_pdl = launch.launch_pdl();
  if (launch.has_launch_cooperative_grid()) {
    converted.launch_cooperative_grid = launch.launch_cooperative_grid();
  }
  if (launch.cluster_dims_size() == 3) {
    converted.cluster_dims = {launch.cluster_dims(0), launch.cluster_dims(1),
                              launch.cluster_dims(2)};
  } else if (launch.cluster_dims_size() != 0) {
    return InvalidArgument("launch.cluster_dims has {} values; it takes three (x, y, z) or none",
                           launch.cluster_dims_size());
  }
  return converted;
}

absl::StatusOr<Options> ToOptions(google::protobuf::Map<std::string, v1::OptionValue>&& options) {
  if (options.size() > limits::kOptionsMax) {
    return InvalidArgument("options has {} entries; at most {} are taken", options.size(),
                           limits::kOptionsMax);
  }
  Options converted;
  for (auto& [name, value] : options) {
    auto option = ToOptionValue(std::move(value));
    if (!option.ok()) {
      return Annotate(option.status(), fmt::format("options[\"{}\"]", Excerpt(name)));
    }
    converted.emplace(name, *std::move(option));
  }
  return converted;
}

absl::StatusOr<BackendDescription> ToBackend(const v1::Backend& backend) {
  BackendDescription converted;
  converted.backend = backend.backend();
  converted.architectures.assign(backend.architectures().begin(), backend.architectures().end());
  converted.stages.assign(backend.stages().begin(), backend.stages().end());
  for (const v1::OptionDeclaration& option : backend.options()) {
    OptionDeclaration& declaration = converted.options[option.name()];
    const auto type = ParseOptionType(option.type());
    if (!type) return InvalidArgument("option '{}' has a type that is not known", option.name());
    declaration.type = *type;
    if (!option.has_default_value()) continue;
    KILN_ASSIGN_OR_RETURN(declaration.default_value,
                          ToOptionValue(v1::OptionValue(option.default_value())));
  }
  return converted;
}

std::string BytesOf(const Digest& digest) { return std::string(digest.Bytes()); }

// The end of `text`, as UTF-8.
std::string Tail(std::string_view text, size_t bytes_max) {
  return ToUtf8(text.size() <= bytes_max ? text : text.substr(text.size() - bytes_max));
}

void ToProto(const BackendDescription& backend, v1::Backend& out) {
  out.set_backend(backend.backend);
  for (const std::string& architecture : backend.architectures) out.add_architectures(architecture);
  for (const std::string& stage : backend.stages) out.add_stages(stage);
  for (const auto& [name, declaration] : backend.options) {
    v1::OptionDeclaration& option = *out.add_options();
    option.set_name(name);
    option.set_type(std::string(OptionTypeName(declaration.type)));
    if (declaration.default_value)
      ToProto(*declaration.default_value, *option.mutable_default_value());
  }
}

}  // namespace

absl::StatusOr<Priority> FromProto(v1::Priority priority) {
  KILN_RETURN_IF_ERROR(CheckKnown("priority", priority));
  return static_cast<Priority>(std::max<int>(priority, v1::PRIORITY_WAITING_RANK) - 1);
}

absl::StatusOr<Toolchain> FromProto(const v1::Toolchain& toolchain) {
  Toolchain converted;
  converted.name = toolchain.name();
  converted.version = toolchain.version();
  KILN_ASSIGN_OR_RETURN(converted.fingerprint, Digest::FromBytes(toolchain.fingerprint()));
  for (const int kind : toolchain.kinds()) {
    KILN_ASSIGN_OR_RETURN(const SourceKind known, ToSourceKind(static_cast<v1::SourceKind>(kind)));
    converted.kinds.push_back(known);
  }
  for (const v1::Backend& backend : toolchain.backends()) {
    KILN_ASSIGN_OR_RETURN(BackendDescription described, ToBackend(backend));
    converted.backends.push_back(std::move(described));
  }
  return converted;
}

absl::StatusOr<CompileRequest> FromProto(v1::CompileRequest&& request) {
  if (!request.has_source()) return InvalidArgument("source is missing");
  if (!request.has_target()) {
    return InvalidArgument("target is missing: say what to compile for, such as cuda:90");
  }
  CompileRequest converted;
  KILN_ASSIGN_OR_RETURN(converted.source.kind, ToSourceKind(request.source().kind()));
  converted.source.text = std::move(*request.mutable_source()->mutable_text());
  converted.source.name = std::move(*request.mutable_source()->mutable_name());
  converted.target = {std::move(*request.mutable_target()->mutable_backend()),
                      std::move(*request.mutable_target()->mutable_architecture()),
                      request.target().warp_size()};
  if (request.specialization().parameters_size() > static_cast<int>(limits::kParametersMax)) {
    return InvalidArgument("specialization has {} parameters; at most {} are taken",
                           request.specialization().parameters_size(), limits::kParametersMax);
  }
  for (v1::Parameter& parameter : *request.mutable_specialization()->mutable_parameters()) {
    KILN_ASSIGN_OR_RETURN(Parameter taken, ToParameter(std::move(parameter)));
    converted.specialization.parameters.push_back(std::move(taken));
  }
  KILN_ASSIGN_OR_RETURN(converted.launch, ToLaunchParameters(request.launch()));
  KILN_ASSIGN_OR_RETURN(converted.options, ToOptions(std::move(*request.mutable_options())));
  converted.toolchain = std::move(*request.mutable_toolchain());
  converted.ptxas = std::move(*request.mutable_ptxas());
  for (v1::SourceHeader& header : *request.mutable_headers()) {
    converted.headers.push_back(
        {std::move(*header.mutable_name()), std::move(*header.mutable_text())});
  }
  if (request.stages_size() > static_cast<int>(limits::kStagesMax)) {
    return InvalidArgument("stages names {} stages; at most {} are taken", request.stages_size(),
                           limits::kStagesMax);
  }
  for (std::string& stage : *request.mutable_stages()) converted.stages.push_back(std::move(stage));
  KILN_RETURN_IF_ERROR(CheckKnown("cache_policy", request.cache_policy()));
  converted.cache_policy =
      static_cast<CachePolicy>(std::max(request.cache_policy(), v1::CACHE_POLICY_USE));
  return converted;
}

v1::Tier ToProto(Tier tier) { return static_cast<v1::Tier>(static_cast<int>(tier) + 1); }

void ToProto(const Target& target, v1::Target& out) {
  out.set_backend(target.backend);
  out.set_architecture(target.architecture);
  out.set_warp_size(target.warp_size);
}

namespace {

using ProtoField = google::protobuf::FieldDescriptor;

void SetField(const ProtoField& field, int64_t value, v1::KernelMetadata& out) {
  out.GetReflection()->SetInt64(&out, &field, value);
}
void SetField(const ProtoField& field, bool value, v1::KernelMetadata& out) {
  out.GetReflection()->SetBool(&out, &field, value);
}
void SetField(const ProtoField& field, const std::optional<int64_t>& value,
              v1::KernelMetadata& out) {
  if (value) SetField(field, *value, out);
}

}  // namespace

void ToProto(const KernelMetadata& metadata, v1::KernelMetadata& out) {
  out.set_name(ToUtf8(metadata.name));
  ToProto(metadata.target, *out.mutable_target());
  for (const int64_t dimension : metadata.cluster_dims) out.add_cluster_dims(dimension);
  for (const TensorDescriptorMetadata& descriptor : metadata.tensor_descriptors) {
    v1::TensorDescriptorMetadata& converted = *out.add_tensor_descriptors();
    converted.set_swizzle(descriptor.swizzle);
    converted.set_elem_size(descriptor.elem_size);
    converted.set_elem_type(descriptor.elem_type);
    for (const int64_t size : descriptor.block_size) converted.add_block_size(size);
    converted.set_fp4_padded(descriptor.fp4_padded);
  }
  for (const KernelParameter& parameter : metadata.parameters) {
    v1::KernelParameter& converted = *out.add_parameters();
    converted.set_name(parameter.name);
    converted.set_type(parameter.type);
  }
  ForEachField(metadata, [&out](const char* name, const auto& value, uint64_t /*max*/) {
    SetField(*v1::KernelMetadata::descriptor()->FindFieldByName(name), value, out);
  });
  out.set_toolchain_metadata(metadata.toolchain_metadata);
}

void ToProto(const Provenance& provenance, v1::Provenance& out) {
  out.set_toolchain(provenance.toolchain);
  out.set_toolchain_fingerprint(BytesOf(provenance.toolchain_fingerprint));
  out.set_assembler(provenance.assembler);
  out.set_kiln_version(provenance.kiln_version);
  out.set_host(provenance.host);
  out.set_compiled_unix_ms(provenance.compiled_unix_ms);
  out.set_compile_micros(provenance.compile_micros);
}

void ToProto(const StageTiming& timing, v1::StageTiming& out) {
  out.set_stage(timing.stage);
  out.set_micros(timing.micros);
}

void ToProto(const OptionValue& value, v1::OptionValue& out) {
  if (const auto* truth = std::get_if<bool>(&value.value)) {
    out.set_bool_value(*truth);
  } else if (const auto* whole = std::get_if<int64_t>(&value.value)) {
    out.set_int_value(*whole);
  } else if (const auto* number = std::get_if<double>(&value.value)) {
    out.set_double_value(*number);
  } else if (const auto* text = std::get_if<std::string>(&value.value)) {
    out.set_string_value(*text);
  } else {
    v1::OptionTuple& tuple = *out.mutable_tuple_value();
    for (const OptionValue& item : std::get<OptionTuple>(value.value)) {
      ToProto(item, *tuple.add_items());
    }
  }
}

void ToProto(const Toolchain& toolchain, v1::Toolchain& out) {
  out.set_name(toolchain.name);
  out.set_version(toolchain.version);
  out.set_fingerprint(BytesOf(toolchain.fingerprint));
  out.set_assembler(toolchain.assembler);
  for (const SourceKind kind : toolchain.kinds) out.add_kinds(static_cast<v1::SourceKind>(kind));
  for (const BackendDescription& backend : toolchain.backends) {
    ToProto(backend, *out.add_backends());
  }
}

void ToProto(const ToolchainCatalog& catalog, v1::ListToolchainsResponse& out) {
  for (const auto& toolchain : catalog.List()) ToProto(*toolchain, *out.add_toolchains());
  // The catalogue may have changed in between.
  if (out.toolchains_size() > 0 && catalog.HasDefault()) {
    out.mutable_toolchains(0)->set_is_default(true);
  }
}

void ToProto(const CompileFailure& failure, const Digest& key, size_t output_bytes_max,
             v1::CompileDiagnostics& out) {
  out.set_stage(failure.stage);
  out.set_message(ToUtf8(failure.message));
  out.set_line(failure.line);
  out.set_column(failure.column);
  out.set_key(BytesOf(key));
  size_t note_bytes = 0;
  for (const CompileNote& note : NotesIn(failure.output)) {
    v1::CompileNote added;
    added.set_file(ToUtf8(note.file));
    added.set_line(note.line);
    added.set_column(note.column);
    added.set_message(ToUtf8(note.message));
    if (note_bytes + added.ByteSizeLong() > output_bytes_max / 3) break;
    note_bytes += added.ByteSizeLong();
    *out.add_notes() = std::move(added);
  }
  out.set_output(Tail(failure.output, output_bytes_max - note_bytes));
}

void ToProto(const StageReference& stage, v1::StageBlob& out) {
  out.set_stage(stage.stage);
  out.set_digest(BytesOf(stage.digest));
  out.set_size_bytes(stage.size_bytes);
}

absl::StatusOr<ReplyStages> SelectStages(const Artifact& artifact,
                                         std::span<const std::string> wanted) {
  ReplyStages selected;
  if (wanted.empty() && !artifact.stages.empty()) {
    selected.stages.push_back(&artifact.stages.back());
  }
  for (const std::string& stage : wanted) {
    const StageBlob* found = FindStage(artifact.stages, stage);
    if (found == nullptr) {
      return Internal("artifact {} has no stage \"{}\"", artifact.key.ShortHex(), Excerpt(stage));
    }
    selected.stages.push_back(found);
  }
  size_t content_bytes = 0;
  for (const StageBlob* stage : selected.stages) content_bytes += stage->blob.size_bytes();
  selected.is_inline = content_bytes <= limits::kInlineBytesMax;
  return selected;
}

void ToProto(const Digest& key, Outcome outcome, std::optional<Tier> tier,
             v1::CompileResponse& out) {
  out.set_key(BytesOf(key));
  out.set_outcome(static_cast<v1::Outcome>(outcome));
  if (tier) out.set_tier(ToProto(*tier));
}

absl::Status ToProto(const Artifact& artifact, Outcome outcome, std::optional<Tier> tier,
                     std::span<const std::string> wanted, v1::CompileResponse& out) {
  KILN_ASSIGN_OR_RETURN(const ReplyStages selected, SelectStages(artifact, wanted));
  ToProto(artifact.key, outcome, tier, out);
  if (const std::string* description = artifact.description.Get(); description == nullptr) {
    DescribeTo(artifact, out);
  } else if (!out.MergeFromString(*description)) {
    return DataLoss("the description of artifact {} is damaged", artifact.key.ShortHex());
  }
  for (const StageBlob* stage : selected.stages) {
    v1::StageBlob& converted = *out.add_stages();
    ToProto({stage->stage, stage->blob.digest(), stage->blob.size_bytes()}, converted);
    if (selected.is_inline) {
      converted.set_content(stage->blob.bytes().data(), stage->blob.size_bytes());
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
