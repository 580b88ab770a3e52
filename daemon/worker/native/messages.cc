#include "daemon/worker/native/messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/kernel/metadata_fields.h"
#include "daemon/kernel/option_json.h"
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
  const std::string text = AsRead(raw);
  size_t end = std::min(bytes_max, text.size());
  while (IsWithinCharacter(text, end)) --end;
  return text.substr(0, end);
}

std::string EndOf(const std::string& raw, size_t bytes_max) {
  const std::string text = AsRead(raw);
  size_t begin = text.size() - std::min(bytes_max, text.size());
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

// Throws where `json` is not what EncodeCompileHeader makes.
absl::StatusOr<CompileRequest> Decode(const Json& json, std::string_view payload) {
  CompileRequest request;
  json.at("backend").get_to(request.target.backend);
  json.at("architecture").get_to(request.target.architecture);
  json.at("warp_size").get_to(request.target.warp_size);
  for (const auto& [name, value] : json.at("options").items()) {
    KILN_ASSIGN_OR_RETURN(request.options[name], OptionFromJson(value));
  }
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  for (const auto& [name, type] : json.value("parameters", Parameters())) {
    request.specialization.parameters.push_back({name, type, {}, {}});
  }
  // Their texts are the end of the payload, in the same order.
  const auto headers = json.value("headers", std::vector<std::pair<std::string, size_t>>());
  for (auto header = headers.rbegin(); header != headers.rend(); ++header) {
    const auto& [name, size] = *header;
    if (size > payload.size()) return Internal("a header is larger than the payload");
    request.headers.push_back({name, std::string(payload.substr(payload.size() - size))});
    payload.remove_suffix(size);
  }
  std::reverse(request.headers.begin(), request.headers.end());
  request.source.text = payload;
  return request;
}

}  // namespace

absl::StatusOr<CompileRequest> DecodeCompile(const Frame& frame) {
  if (frame.type != FrameType::kCompile) return Internal("expected a compile frame");
  try {
    return Decode(Json::parse(frame.header), frame.payload);
  } catch (const Json::exception& error) {
    return Internal("the compile frame's header: {}", error.what());
  }
}

std::string EncodeReadyHeader(const std::vector<std::string>& jail_problems) {
  return Json{{"jail_problems", jail_problems}}.dump(-1, ' ', false,
                                                     Json::error_handler_t::replace);
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
