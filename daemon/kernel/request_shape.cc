#include "daemon/kernel/request_shape.h"

#include <cmath>

#include "storage/base/limits.h"
#include "storage/base/utf8.h"

namespace kiln {
namespace {

// The checks of one value say what is wrong with it; whoever knows which value it is puts that in
// front, and only on failure, since a hit has no time for formatting.
template <typename... Args>
absl::Status In(const absl::Status& status, fmt::format_string<Args...> format, Args&&... args) {
  if (status.ok()) return status;
  return Annotate(status, fmt::format(format, std::forward<Args>(args)...));
}

absl::Status CheckText(std::string_view text) {
  if (text.size() > limits::kNameBytesMax) {
    return InvalidArgument("{} bytes long; at most {} are accepted", text.size(),
                           limits::kNameBytesMax);
  }
  return IsValidUtf8(text) ? absl::OkStatus() : InvalidArgument("not valid UTF-8");
}

absl::Status CheckName(std::string_view name) {
  return name.empty() ? InvalidArgument("empty") : CheckText(name);
}

absl::Status CheckCount(std::string_view what, size_t count, size_t count_max) {
  if (count <= count_max) return absl::OkStatus();
  return InvalidArgument("{} {} were given; at most {} are accepted", count, what, count_max);
}

bool IncludesHeaders(SourceKind kind) {
  return kind == SourceKind::kCudaCxx || kind == SourceKind::kOpenCl;
}

absl::Status CheckSource(const KernelSource& source) {
  if (source.text.empty()) return InvalidArgument("the source is empty; send the kernel's text");
  if (source.text.size() > limits::kSourceBytesMax) {
    return ResourceExhausted("the source is {} bytes long; at most {} are accepted",
                             source.text.size(), limits::kSourceBytesMax);
  }
  if (const size_t at = source.text.find('\0'); at != std::string::npos) {
    return InvalidArgument("the source has a NUL byte at offset {}; send text, not a binary", at);
  }
  // NVRTC and clang take any bytes, in comments at least; the parsers of the others do not.
  if (!IncludesHeaders(source.kind) && !IsValidUtf8(source.text)) {
    return InvalidArgument("the source is not valid UTF-8; {} is text",
                           SourceKindName(source.kind));
  }
  return In(CheckText(source.name), "the kernel's name");
}

absl::Status CheckHeaders(const CompileRequest& request) {
  if (request.headers.empty()) return absl::OkStatus();
  if (!IncludesHeaders(request.source.kind)) {
    return InvalidArgument("{} includes no headers; send them with CUDA C++ and OpenCL C only",
                           SourceKindName(request.source.kind));
  }
  KILN_RETURN_IF_ERROR(CheckCount("headers", request.headers.size(), limits::kHeadersMax));
  size_t bytes = request.source.text.size();
  for (const SourceHeader& header : request.headers) {
    KILN_RETURN_IF_ERROR(In(CheckName(header.name), "a header's name"));
    // They reach the compiler as C strings.
    if ((header.name + header.text).find('\0') != std::string::npos) {
      return InvalidArgument("header '{}' has a NUL byte; send text", header.name);
    }
    bytes += header.text.size();
  }
  if (bytes <= limits::kSourceBytesMax) return absl::OkStatus();
  return ResourceExhausted("source and headers are {} bytes long; at most {} are accepted", bytes,
                           limits::kSourceBytesMax);
}

absl::Status CheckTarget(const Target& target) {
  KILN_RETURN_IF_ERROR(In(CheckName(target.backend), "the target's backend"));
  return In(CheckName(target.architecture), "the target's architecture");
}

// Adds what the value takes to `bytes`. Checks depth on the way down, so a hostile value cannot
// exhaust the stack.
absl::Status CheckValue(const OptionValue& value, size_t depth, size_t& bytes) {
  if (depth > limits::kOptionDepthMax) {
    return InvalidArgument("nests deeper than {} tuples", limits::kOptionDepthMax);
  }
  bytes += sizeof(int64_t);
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    bytes += text->size();
    if (!IsValidUtf8(*text)) return InvalidArgument("not valid UTF-8");
  } else if (const auto* number = std::get_if<double>(&value.value)) {
    if (!std::isfinite(*number)) {
      return InvalidArgument("not a finite number, and no compiler option means anything else");
    }
  } else if (const auto* items = std::get_if<OptionTuple>(&value.value)) {
    for (const OptionValue& item : *items) {
      KILN_RETURN_IF_ERROR(CheckValue(item, depth + 1, bytes));
    }
  }
  if (bytes <= limits::kOptionBytesMax) return absl::OkStatus();
  return InvalidArgument("larger than {} bytes", limits::kOptionBytesMax);
}

absl::Status CheckValue(const OptionValue& value) {
  size_t bytes = 0;
  return CheckValue(value, 0, bytes);
}

absl::Status CheckParameter(const Parameter& parameter) {
  KILN_RETURN_IF_ERROR(In(CheckText(parameter.name), "name"));
  KILN_RETURN_IF_ERROR(In(CheckText(parameter.type), "type"));
  KILN_RETURN_IF_ERROR(
      CheckCount("attributes", parameter.attributes.size(), limits::kAttributesMax));
  for (const auto& [name, value] : parameter.attributes) {
    KILN_RETURN_IF_ERROR(In(CheckName(name), "an attribute's name"));
  }
  if (!parameter.constant) return absl::OkStatus();
  return In(CheckValue(*parameter.constant), "constant");
}

absl::Status CheckSpecialization(const Specialization& specialization) {
  const auto& parameters = specialization.parameters;
  KILN_RETURN_IF_ERROR(CheckCount("parameters", parameters.size(), limits::kParametersMax));
  for (size_t i = 0; i < parameters.size(); ++i) {
    KILN_RETURN_IF_ERROR(In(CheckParameter(parameters[i]), "parameter {}", i));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const Options& options) {
  KILN_RETURN_IF_ERROR(CheckCount("options", options.size(), limits::kOptionsMax));
  for (const auto& [name, value] : options) {
    KILN_RETURN_IF_ERROR(In(CheckName(name), "an option's name"));
    KILN_RETURN_IF_ERROR(In(CheckValue(value), "option '{}'", name));
  }
  return absl::OkStatus();
}

absl::Status CheckStages(const std::vector<std::string>& stages) {
  KILN_RETURN_IF_ERROR(CheckCount("stages", stages.size(), limits::kStagesMax));
  for (const std::string& stage : stages) {
    KILN_RETURN_IF_ERROR(In(CheckName(stage), "a stage's name"));
  }
  return absl::OkStatus();
}

// A node of a map, beside what it holds: the links, and the allocator's part.
constexpr size_t kNodeBytes = 48;

size_t BytesOf(const OptionValue& value) {
  size_t bytes = sizeof value;
  if (const auto* text = std::get_if<std::string>(&value.value)) bytes += text->size();
  if (const auto* items = std::get_if<OptionTuple>(&value.value)) {
    for (const OptionValue& item : *items) bytes += BytesOf(item);
  }
  return bytes;
}

size_t BytesOf(const Parameter& parameter) {
  size_t bytes = sizeof parameter + parameter.name.size() + parameter.type.size();
  for (const auto& [name, value] : parameter.attributes) {
    bytes += kNodeBytes + sizeof name + name.size() + sizeof value;
  }
  return parameter.constant ? bytes + BytesOf(*parameter.constant) : bytes;
}

}  // namespace

size_t RequestBytes(const CompileRequest& request) {
  size_t bytes = sizeof request + request.source.text.size() + request.source.name.size();
  for (const Parameter& parameter : request.specialization.parameters) bytes += BytesOf(parameter);
  for (const auto& [name, value] : request.options) {
    bytes += kNodeBytes + sizeof name + name.size() + BytesOf(value);
  }
  for (const SourceHeader& header : request.headers) {
    bytes += sizeof header + header.name.size() + header.text.size();
  }
  for (const std::string& stage : request.stages) bytes += sizeof stage + stage.size();
  return bytes;
}

absl::Status CheckShape(const CompileRequest& request) {
  KILN_RETURN_IF_ERROR(CheckSource(request.source));
  KILN_RETURN_IF_ERROR(CheckHeaders(request));
  KILN_RETURN_IF_ERROR(CheckTarget(request.target));
  KILN_RETURN_IF_ERROR(CheckSpecialization(request.specialization));
  KILN_RETURN_IF_ERROR(CheckOptions(request.options));
  KILN_RETURN_IF_ERROR(In(CheckText(request.toolchain), "the toolchain selector"));
  KILN_RETURN_IF_ERROR(In(CheckText(request.ptxas), "the ptxas selector"));
  return CheckStages(request.stages);
}

}  // namespace kiln
