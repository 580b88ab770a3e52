#include "daemon/worker/worker_protocol.h"

#include <nlohmann/json.hpp>

#include "daemon/kernel/launch_options.h"
#include "daemon/kernel/metadata_fields.h"
#include "daemon/kernel/option_json.h"
#include "daemon/process/json_reader.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kCountMax = uint64_t{1} << 40;
constexpr uint64_t kSmallMax = 1 << 20;
constexpr size_t kJailProblemsMax = 64;

// [[name, type]] of those that a launcher passes.
Json EncodeParameters(const Specialization& specialization) {
  Json parameters = Json::array();
  for (const Parameter& parameter : specialization.parameters) {
    if (!parameter.constant) parameters.push_back(Json::array({parameter.name, parameter.type}));
  }
  return parameters;
}

absl::Status DecodeStages(JsonReader& reader, const Frame& frame,
                          const std::vector<std::string>& expected, WorkerReply& reply) {
  std::string_view payload = frame.payload;
  for (const Json& entry : reader.Array("stages", limits::kStagesMax)) {
    JsonReader stage(entry, "a stage");
    const std::string name = stage.String("name", limits::kNameBytesMax);
    const uint64_t bytes = stage.Count("bytes", payload.size());
    reply.timings.push_back({name, stage.Count("micros", kCountMax)});
    KILN_RETURN_IF_ERROR(stage.status());
    // Parsing takes time, but leaves nothing behind.
    if (name == "parse" && bytes == 0) continue;
    reply.stages.push_back({name, std::string(payload.substr(0, bytes))});
    payload.remove_prefix(bytes);
  }
  if (!payload.empty()) return Internal("{} bytes belong to no stage", payload.size());
  std::vector<std::string> names;
  for (const StageOutput& stage : reply.stages) names.push_back(stage.stage);
  if (names != expected) {
    return Internal("the stages are {}, expected {}", fmt::join(names, ", "),
                    fmt::join(expected, ", "));
  }
  if (reply.stages.empty() || reply.stages.back().bytes.empty())
    return Internal("the final binary is empty");
  return absl::OkStatus();
}

absl::Status DecodeParameters(JsonReader& kernel, KernelMetadata& metadata) {
  for (const Json& entry : kernel.Array("parameters", limits::kParametersMax)) {
    const bool is_pair =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string();
    if (!is_pair) return Internal("a kernel's parameter is not a name and a type");
    KernelParameter parameter{entry[0].get<std::string>(), entry[1].get<std::string>()};
    if (parameter.name.size() > limits::kNameBytesMax ||
        parameter.type.size() > limits::kParameterTypeBytesMax) {
      return Internal("a kernel's parameter has a name or a type over the limit");
    }
    metadata.parameters.push_back(std::move(parameter));
  }
  return absl::OkStatus();
}

absl::Status DecodeDescriptors(JsonReader& kernel, KernelMetadata& metadata) {
  for (const Json& entry : kernel.Array("tensor_descriptors", limits::kParametersMax)) {
    JsonReader reader(entry, "a tensor descriptor");
    TensorDescriptorMetadata descriptor;
    descriptor.swizzle = static_cast<int64_t>(reader.Count("swizzle", kSmallMax));
    descriptor.elem_size = static_cast<int64_t>(reader.Count("elem_size", kSmallMax));
    descriptor.elem_type = static_cast<int64_t>(reader.Count("elem_type", kSmallMax));
    descriptor.fp4_padded = reader.Bool("fp4_padded");
    for (const Json& extent : reader.Array("block_size", 16)) {
      if (!extent.is_number_unsigned())
        return Internal("a tensor descriptor's block_size is not made of numbers");
      descriptor.block_size.push_back(extent.get<int64_t>());
    }
    KILN_RETURN_IF_ERROR(reader.status());
    metadata.tensor_descriptors.push_back(std::move(descriptor));
  }
  return absl::OkStatus();
}

absl::Status DecodeClusterDims(JsonReader& kernel, KernelMetadata& metadata) {
  const Json& dims = kernel.Array("cluster_dims", 3);
  if (dims.size() != 3) return Internal("a kernel's cluster_dims are not three numbers");
  for (size_t i = 0; i < 3; ++i) {
    if (!dims[i].is_number_unsigned() || dims[i].get<uint64_t>() > kSmallMax) {
      return Internal("a kernel's cluster_dims are not three small numbers");
    }
    metadata.cluster_dims[i] = dims[i].get<int64_t>();
  }
  return absl::OkStatus();
}

void ReadField(JsonReader& kernel, const char* name, uint64_t max, int64_t& value) {
  value = static_cast<int64_t>(kernel.Count(name, max));
}
void ReadField(JsonReader& kernel, const char* name, uint64_t /*max*/, bool& value) {
  value = kernel.Bool(name);
}
void ReadField(JsonReader& kernel, const char* name, uint64_t max, std::optional<int64_t>& value) {
  if (kernel.Has(name)) ReadField(kernel, name, max, value.emplace());
}

absl::Status DecodeKernel(const Json& json, WorkerReply& reply) {
  JsonReader kernel(json, "the kernel");
  KernelMetadata& metadata = reply.metadata;
  metadata.name = kernel.String("name", limits::kKernelNameBytesMax);
  ForEachField(metadata, [&kernel](const char* name, auto& value, uint64_t max) {
    ReadField(kernel, name, max, value);
  });
  metadata.toolchain_metadata =
      kernel.String("toolchain_metadata", limits::kToolchainMetadataBytesMax);
  reply.assembler = kernel.String("assembler", limits::kNameBytesMax);
  KILN_RETURN_IF_ERROR(DecodeClusterDims(kernel, metadata));
  KILN_RETURN_IF_ERROR(DecodeParameters(kernel, metadata));
  KILN_RETURN_IF_ERROR(DecodeDescriptors(kernel, metadata));
  KILN_RETURN_IF_ERROR(kernel.status());
  if (metadata.name.empty()) return Internal("the kernel has no name");
  return absl::OkStatus();
}

absl::Status DecodeFailure(const Json& json, CompileFailure& failure) {
  JsonReader reader(json, "the failure");
  const std::string code = reader.String("code", 64);
  failure.stage = reader.String("stage", limits::kNameBytesMax);
  failure.message = reader.String("message", limits::kDiagnosticsBytesMax);
  failure.line = static_cast<int>(reader.Count("line", 1 << 30));
  failure.column = static_cast<int>(reader.Count("column", 1 << 30));
  failure.output = reader.String("output", limits::kDiagnosticsBytesMax);
  failure.deterministic = reader.Bool("deterministic");
  KILN_RETURN_IF_ERROR(reader.status());
  for (const auto& [word, meaning] : kFailureCodes) {
    if (word != code) continue;
    failure.code = meaning;
    return absl::OkStatus();
  }
  return Internal("a worker may not give the failure's code");
}

bool IsOfTheMachine(const CompileFailure& failure) {
  return failure.code == absl::StatusCode::kUnavailable ||
         failure.code == absl::StatusCode::kFailedPrecondition;
}

absl::Status DecodeUsage(const Json& json, WorkerUsage& usage) {
  JsonReader reader(json, "the usage");
  usage.cpu_micros = reader.Count("cpu_micros", kCountMax);
  usage.wall_micros = reader.Count("wall_micros", kCountMax);
  usage.peak_bytes = reader.Count("peak_bytes", uint64_t{1} << 50);
  return reader.status();
}

}  // namespace

std::string EncodeCompileHeader(const CompileRequest& request, const Toolchain* ptxas) {
  Json header = {{"kind", SourceKindName(request.source.kind)},
                 {"backend", request.target.backend},
                 {"architecture", request.target.architecture},
                 {"warp_size", request.target.warp_size},
                 {"options", Json::object()}};
  // Launch parameters are options to the compiler.
  for (const Options& options : {LaunchOptions(request.launch), request.options}) {
    for (const auto& [name, value] : options) header["options"][name] = OptionToJson(value);
  }
  if (!request.specialization.parameters.empty()) {
    header["parameters"] = EncodeParameters(request.specialization);
  }
  for (const SourceHeader& each : request.headers) {
    header["headers"].push_back(Json::array({each.name, each.text.size()}));
  }
  if (ptxas != nullptr) {
    header["ptxas"] = {{"path", ptxas->directory},
                       {"sha256", ptxas->fingerprint.Hex()},
                       {"version", ptxas->version}};
  }
  return header.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string CompilePayload(const CompileRequest& request) {
  std::string payload = request.source.text;
  for (const SourceHeader& header : request.headers) payload += header.text;
  return payload;
}

absl::StatusOr<std::vector<std::string>> DecodeReady(const Frame& frame) {
  if (frame.type != FrameType::kReady || frame.id != 0 || !frame.payload.empty()) {
    return Internal("expected a frame that says ready");
  }
  const Json json = Json::parse(frame.header, nullptr, /*allow_exceptions=*/false);
  JsonReader reader(json, "a worker's first frame");
  std::vector<std::string> problems =
      reader.Strings("jail_problems", kJailProblemsMax, limits::kDiagnosticsBytesMax);
  KILN_RETURN_IF_ERROR(reader.status());
  return problems;
}

absl::StatusOr<WorkerReply> DecodeResult(const Frame& frame,
                                         const std::vector<std::string>& stages) {
  if (frame.type != FrameType::kResult) return Internal("expected a result frame");
  const Json json = Json::parse(frame.header, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Internal("a result's header is not JSON");
  JsonReader reader(json, "the result");
  const std::string outcome = reader.String("outcome", 64);
  WorkerReply reply;
  KILN_RETURN_IF_ERROR(DecodeUsage(reader.Object("usage"), reply.usage));
  if (outcome == "compiled") {
    reply.outcome = WorkerReply::Outcome::kCompiled;
    KILN_RETURN_IF_ERROR(DecodeStages(reader, frame, stages, reply));
    KILN_RETURN_IF_ERROR(DecodeKernel(reader.Object("kernel"), reply));
  } else if (outcome == "failed") {
    reply.outcome = WorkerReply::Outcome::kFailed;
    KILN_RETURN_IF_ERROR(DecodeFailure(reader.Object("failure"), reply.failure));
    if (IsOfTheMachine(reply.failure)) reply.outcome = WorkerReply::Outcome::kUnable;
  } else if (outcome == "crashed") {
    reply.outcome = WorkerReply::Outcome::kCrashed;
    if (reader.Has("failure"))
      KILN_RETURN_IF_ERROR(DecodeFailure(reader.Object("failure"), reply.failure));
  } else {
    return Internal("a worker may not give the result's outcome");
  }
  KILN_RETURN_IF_ERROR(reader.status());
  return reply;
}

}  // namespace kiln
