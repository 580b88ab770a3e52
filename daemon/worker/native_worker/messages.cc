#include "daemon/worker/native_worker/messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/worker/json_reader.h"
#include "daemon/worker/option_json.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string_view CodeWord(absl::StatusCode code) {
  if (code == absl::StatusCode::kInvalidArgument) return "invalid_argument";
  if (code == absl::StatusCode::kResourceExhausted) return "resource_exhausted";
  return "internal";
}

Json EncodeKernel(const WorkerReply& reply) {
  const KernelMetadata& metadata = reply.metadata;
  Json parameters = Json::array();
  for (const KernelParameter& each : metadata.parameters) {
    parameters.push_back(Json::array({each.name, each.type}));
  }
  return {{"name", metadata.name},
          {"shared_bytes", metadata.shared_bytes},
          {"num_warps", metadata.num_warps},
          {"num_ctas", metadata.num_ctas},
          {"warp_size", metadata.warp_size},
          {"global_scratch_bytes", metadata.global_scratch_bytes},
          {"global_scratch_align", metadata.global_scratch_align},
          {"profile_scratch_bytes", metadata.profile_scratch_bytes},
          {"profile_scratch_align", metadata.profile_scratch_align},
          {"tensor_memory_columns", metadata.tensor_memory_columns},
          {"cluster_dims", metadata.cluster_dims},
          {"launch_pdl", metadata.launch_pdl},
          {"launch_cooperative_grid", metadata.launch_cooperative_grid},
          {"registers", OrNull(metadata.registers)},
          {"spill_bytes", OrNull(metadata.spill_bytes)},
          {"tensor_descriptors", Json::array()},
          {"parameters", std::move(parameters)},
          {"hidden_pointers", metadata.hidden_pointers},
          {"assembler", reply.assembler},
          {"toolchain_metadata", metadata.toolchain_metadata}};
}

Json EncodeFailure(const CompileFailure& failure) {
  return {{"code", CodeWord(failure.code)},
          {"stage", failure.stage},
          {"message", failure.message},
          {"line", failure.line},
          {"column", failure.column},
          {"output", failure.output},
          {"deterministic", failure.deterministic}};
}

// In the order of the timings; a stage without output, such as "parse", has a time alone.
Json EncodeStages(const WorkerReply& reply, std::string& payload) {
  Json stages = Json::array();
  for (const StageTiming& timing : reply.timings) {
    const auto output =
        std::find_if(reply.stages.begin(), reply.stages.end(),
                     [&](const StageOutput& stage) { return stage.stage == timing.stage; });
    const size_t bytes = output == reply.stages.end() ? 0 : output->bytes.size();
    if (bytes > 0) payload += output->bytes;
    stages.push_back({{"name", timing.stage}, {"bytes", bytes}, {"micros", timing.micros}});
  }
  return stages;
}

absl::Status DecodeOptions(const Json& json, Options& options) {
  for (const auto& [name, value] : json.items()) {
    absl::StatusOr<OptionValue> option = OptionFromJson(value);
    if (!option.ok()) return Annotate(option.status(), fmt::format("option {}", name));
    options.emplace(name, *std::move(option));
  }
  return absl::OkStatus();
}

absl::Status DecodeGivenParameters(const Json& json, Specialization& specialization) {
  for (const Json& entry : json) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string()) {
      return Internal("a parameter is not a name and a type");
    }
    Parameter& parameter = specialization.parameters.emplace_back();
    parameter.name = entry[0].get<std::string>();
    parameter.type = entry[1].get<std::string>();
  }
  return absl::OkStatus();
}

// [[name, bytes], …]; their texts are the end of `payload` and are taken off it.
absl::Status TakeHeaders(const Json& json, std::string& payload,
                         std::vector<SourceHeader>& headers) {
  size_t begin = payload.size();
  for (const Json& entry : json) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
        !entry[1].is_number_unsigned() || entry[1].get<uint64_t>() > begin) {
      return Internal("a header is not a name and a size within the payload");
    }
    begin -= entry[1].get<size_t>();
  }
  size_t at = begin;
  for (const Json& entry : json) {
    const auto size = entry[1].get<size_t>();
    headers.push_back({entry[0].get<std::string>(), payload.substr(at, size)});
    at += size;
  }
  payload.resize(begin);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompileRequest> DecodeCompile(Frame frame) {
  if (frame.type != FrameType::kCompile) return Internal("expected a compile frame");
  const Json json = Json::parse(frame.header, nullptr, /*allow_exceptions=*/false);
  JsonReader reader(json, "the compile frame's header");
  CompileRequest request;
  request.target.backend = reader.String("backend", limits::kNameBytesMax);
  request.target.architecture = reader.String("architecture", limits::kNameBytesMax);
  request.target.warp_size = static_cast<int>(reader.Count("warp_size", 1024));
  const Json& options = reader.Object("options");
  KILN_RETURN_IF_ERROR(reader.status());
  KILN_RETURN_IF_ERROR(DecodeOptions(options, request.options));
  if (reader.Has("parameters")) {
    const Json& parameters = reader.Array("parameters", limits::kParametersMax);
    KILN_RETURN_IF_ERROR(reader.status());
    KILN_RETURN_IF_ERROR(DecodeGivenParameters(parameters, request.specialization));
  }
  if (reader.Has("headers")) {
    const Json& headers = reader.Array("headers", limits::kHeadersMax);
    KILN_RETURN_IF_ERROR(reader.status());
    KILN_RETURN_IF_ERROR(TakeHeaders(headers, frame.payload, request.headers));
  }
  request.source.text = std::move(frame.payload);
  return request;
}

ResultMessage EncodeResult(const WorkerReply& reply) {
  ResultMessage message;
  Json header = {{"stages", Json::array()},
                 {"usage",
                  {{"cpu_micros", reply.usage.cpu_micros},
                   {"wall_micros", reply.usage.wall_micros},
                   {"rss_bytes", reply.usage.rss_bytes}}}};
  if (reply.usage.peak_bytes > 0) header["usage"]["peak_bytes"] = reply.usage.peak_bytes;
  if (reply.outcome == WorkerReply::Outcome::kCompiled) {
    header["outcome"] = "compiled";
    header["stages"] = EncodeStages(reply, message.payload);
    header["kernel"] = EncodeKernel(reply);
  } else {
    const bool crashed = reply.outcome == WorkerReply::Outcome::kCrashed;
    header["outcome"] = crashed ? "crashed" : "failed";
    header["failure"] = EncodeFailure(reply.failure);
  }
  // Compilers quote sources, and those may be in any encoding.
  message.header = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  return message;
}

}  // namespace kiln
