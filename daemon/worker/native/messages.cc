#include "daemon/worker/native/messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/kernel/metadata_fields.h"
#include "daemon/kernel/option_json.h"
#include "daemon/process/json_reader.h"
#include "daemon/worker/native/native_compiler.h"
#include "storage/base/limits.h"
#include "storage/base/utf8.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

Json OrNull(int64_t value) { return value; }
Json OrNull(bool value) { return value; }
Json OrNull(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

std::string_view CodeWord(absl::StatusCode code) {
  for (const auto& [word, meaning] : kFailureCodes) {
    if (meaning == code) return word;
  }
  return "internal";
}

Json EncodeKernel(const WorkerReply& reply) {
  const KernelMetadata& metadata = reply.metadata;
  Json parameters = Json::array();
  for (const KernelParameter& each : metadata.parameters) {
    parameters.push_back(Json::array({each.name, each.type}));
  }
  Json json = {{"name", metadata.name},
               {"cluster_dims", metadata.cluster_dims},
               {"tensor_descriptors", Json::array()},
               {"parameters", std::move(parameters)},
               {"assembler", reply.assembler},
               {"toolchain_metadata", metadata.toolchain_metadata}};
  ForEachField(metadata, [&json](const char* name, const auto& value, uint64_t /*max*/) {
    json[name] = OrNull(value);
  });
  return json;
}

// Compilers quote sources, and those may be in any encoding.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// As the daemon will read it: what is not UTF-8 has grown by then.
std::string AsRead(const std::string& text) {
  return IsValidUtf8(text) ? text : Json::parse(Dump(text)).get<std::string>();
}

bool IsWithinCharacter(const std::string& text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80;
}

std::string BeginOf(const std::string& raw, size_t bytes_max) {
  std::string text = AsRead(raw);
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (IsWithinCharacter(text, end)) --end;
  return text.substr(0, end);
}

std::string EndOf(const std::string& raw, size_t bytes_max) {
  std::string text = AsRead(raw);
  if (text.size() <= bytes_max) return text;
  size_t begin = text.size() - bytes_max;
  while (IsWithinCharacter(text, begin)) ++begin;
  return text.substr(begin);
}

// A line or a column as the daemon takes it. What a source says of its own place (#line) can be
// anything; 0 is none.
int PlaceOf(int number) {
  constexpr int kPlaceMax = 1 << 30;
  return number > kPlaceMax ? 0 : std::max(number, 0);
}

Json EncodeFailure(const CompileFailure& failure) {
  return {{"code", CodeWord(failure.code)},
          {"stage", BeginOf(failure.stage, limits::kNameBytesMax)},
          {"message", BeginOf(failure.message, limits::kDiagnosticsBytesMax)},
          {"line", PlaceOf(failure.line)},
          {"column", PlaceOf(failure.column)},
          {"output", EndOf(failure.output, limits::kDiagnosticsBytesMax)},
          {"deterministic", failure.deterministic}};
}

// Whether the daemon takes what is to be said of a kernel. A source may compile and still be beyond
// it, and that is a property of the source, which no other worker would change.
absl::Status CheckDescription(const KernelMetadata& metadata) {
  const auto check = [](size_t size, size_t size_max, std::string_view what) {
    if (size <= size_max) return absl::OkStatus();
    return ResourceExhausted("it compiled, but {} is {}, and Kiln takes at most {}", what, size,
                             size_max);
  };
  KILN_RETURN_IF_ERROR(check(metadata.name.size(), limits::kKernelNameBytesMax,
                             "the size of the kernel's name in bytes"));
  KILN_RETURN_IF_ERROR(check(metadata.parameters.size(), limits::kParametersMax,
                             "the number of the kernel's parameters"));
  return check(metadata.toolchain_metadata.size(), limits::kToolchainMetadataBytesMax,
               "the size of its kernels' names in bytes");
}

absl::Status CheckSize(const ResultMessage& message) {
  if (message.header.size() <= limits::kFrameHeaderBytesMax &&
      message.payload.size() <= limits::kFramePayloadBytesMax) {
    return absl::OkStatus();
  }
  return ResourceExhausted(
      "it compiled, but to {} bytes with a description of {}, and Kiln takes at most {} and {}",
      message.payload.size(), message.header.size(), limits::kFramePayloadBytesMax,
      limits::kFrameHeaderBytesMax);
}

// The answer where that of a compile is too large to be sent.
WorkerReply Instead(const WorkerReply& reply, const absl::Status& why) {
  WorkerReply failed = FailedReply(reply.stages.empty() ? "" : reply.stages.back().stage, why);
  failed.usage = reply.usage;
  return failed;
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
  const bool is_compiled = reply.outcome == WorkerReply::Outcome::kCompiled;
  if (is_compiled) {
    if (const absl::Status fits = CheckDescription(reply.metadata); !fits.ok()) {
      return EncodeResult(Instead(reply, fits));
    }
  }
  ResultMessage message;
  Json header = {{"stages", Json::array()},
                 {"usage",
                  {{"cpu_micros", reply.usage.cpu_micros},
                   {"wall_micros", reply.usage.wall_micros},
                   {"peak_bytes", reply.usage.peak_bytes}}}};
  if (is_compiled) {
    header["outcome"] = "compiled";
    header["stages"] = EncodeStages(reply, message.payload);
    header["kernel"] = EncodeKernel(reply);
  } else {
    const bool crashed = reply.outcome == WorkerReply::Outcome::kCrashed;
    header["outcome"] = crashed ? "crashed" : "failed";
    header["failure"] = EncodeFailure(reply.failure);
  }
  message.header = Dump(header);
  const absl::Status fits = CheckSize(message);
  return is_compiled && !fits.ok() ? EncodeResult(Instead(reply, fits)) : message;
}

}  // namespace kiln
