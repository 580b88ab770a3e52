#include "client/launch/tuning_record.h"

#include <nlohmann/json.hpp>

#include "client/launch/artifact/sha256.h"

namespace kiln::launch {
namespace {

// Increased when the meaning of the times or of the key changes.
constexpr int kTuningFormat = 2;

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
  // Prefixed with its length, so that two lists of fields never give the same text.
  const auto append = [&text](const auto&... fields) {
    ((text += fmt::format("{}:{};", fields.size(), fields)), ...);
  };
  if (artifact.key != Sha256Digest{}) {
    append(BytesOf(artifact.key));
  } else {
    append(BytesOf(artifact.binary), BytesOf(artifact.metadata));
  }
  append(device.name, device.architecture, std::to_string(device.driver_version), Join(call.grid),
         Join(call.block), std::to_string(call.dynamic_shared_bytes),
         fmt::format("{}{}", call.pdl != 0 ? 'p' : '-', call.cooperative != 0 ? 'c' : '-'),
         problem);
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
  try {
    const auto json = nlohmann::json::parse(record);
    if (json.at("format") != kTuningFormat || !json.at("runs").is_number_unsigned()) {
      return std::nullopt;
    }
    return RunTimes{json.at("median_ms").get<double>(), json.at("low_ms").get<double>(),
                    json.at("high_ms").get<double>(), json.at("runs").get<uint32_t>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace kiln::launch
