// JSON as this command reads and writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "kiln/admin/v1/admin_service.pb.h"
#include "kiln/v1/kernel.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Objects keep the order in which their fields were set.
using Json = nlohmann::ordered_json;

// One line; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string Dump(const Json& json);
// Many lines, for files that people read.
[[nodiscard]] std::string DumpPretty(const Json& json);

// INVALID_ARGUMENT where `text` is no JSON, or is nested deeper than anything here needs.
[[nodiscard]] absl::StatusOr<Json> ParseJson(std::string_view text);

// A message's fields under the names they have in protos/kiln/v1; digests as hex; absent ones are
// left out.
[[nodiscard]] Json ToJson(const v1::KernelMetadata& metadata);
[[nodiscard]] Json ToJson(const v1::Provenance& provenance);
[[nodiscard]] Json ToJson(const v1::StageBlob& stage);
[[nodiscard]] Json ToJson(const v1::StageTiming& timing);
[[nodiscard]] Json ToJson(const v1::CompileDiagnostics& diagnostics);
[[nodiscard]] Json ToJson(const admin::v1::ArtifactSummary& summary);

// A repeated field as an array of the above.
template <typename Messages>
[[nodiscard]] Json ToJsonArray(const Messages& messages) {
  Json array = Json::array();
  for (const auto& message : messages) array.push_back(ToJson(message));
  return array;
}

}  // namespace kiln::cli
