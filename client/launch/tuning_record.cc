#include "client/launch/tuning_record.h"

#include <nlohmann/json.hpp>

#include "client/launch/artifact/sha256.h"

namespace kiln::launch {
namespace {

// Increased when the meaning of the times or of the key changes.
constexpr int kTuningFormat = 2;

// Prefixed with its length, so that two lists of fields never give the same text.
void AppendField(std::string& text, std::string_view field) {
  text += fmt::format("{}:{};", field.size(), field);
}

template <typename Numbers>
std::string Join(const Numbers& numbers) {
  return fmt::format("{}x{}x{}", numbers[0], numbers[1], numbers[2]);
}

std::string_view BytesOf(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::string TuningKey(const ArtifactId& artifact, const DeviceFacts& device, const LaunchCall& call,
                      std::string_view problem) {
  std::string text;
  if (artifact.key != Sha256Digest{}) {
    AppendField(text, BytesOf(artifact.key));
  } else {
    AppendField(text, BytesOf(artifact.binary));
    AppendField(text, BytesOf(artifact.metadata));
  }
  AppendField(text, device.name);
  AppendField(text, device.architecture);
  AppendField(text, std::to_string(device.driver_version));
  AppendField(text, Join(call.grid));
  AppendField(text, Join(call.block));
  AppendField(text, std::to_string(call.dynamic_shared_bytes));
  AppendField(text,
              fmt::format("{}{}", call.pdl != 0 ? 'p' : '-', call.cooperative != 0 ? 'c' : '-'));
  AppendField(text, problem);
  return fmt::format("tuning/{}/{}", kTuningFormat, ToHex(Sha256(text)));
}

std::string EncodeRunTimes(const RunTimes& times) {
  return nlohmann::json({{"format", kTuningFormat},
                         {"median_ms", times.median_ms},
                         {"low_ms", times.low_ms},
                         {"high_ms", times.high_ms},
                         {"runs", times.runs}})
      .dump();
}

std::optional<RunTimes> DecodeRunTimes(std::string_view record) {
  const auto json = nlohmann::json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kTuningFormat) {
    return std::nullopt;
  }
  RunTimes times;
  for (const auto& [name, out] : {std::pair{"median_ms", &times.median_ms},
                                  {"low_ms", &times.low_ms},
                                  {"high_ms", &times.high_ms}}) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number()) return std::nullopt;
    *out = found->get<double>();
  }
  const auto runs = json.find("runs");
  if (runs == json.end() || !runs->is_number_unsigned()) return std::nullopt;
  times.runs = runs->get<uint32_t>();
  return times;
}

}  // namespace kiln::launch
