// JSON as this command reads and writes it. Whoever takes a Json apart or puts one together
// includes <nlohmann/json.hpp> as well: it takes seconds to compile, and most need only what is
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

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

// A message, as Dump.
[[nodiscard]] std::string Dump(const admin::v1::ArtifactSummary& summary);
[[nodiscard]] std::string Dump(const admin::v1::InspectArtifactResponse& found);
[[nodiscard]] std::string Dump(const admin::v1::GetStatsResponse& stats);

// The values of an object in its order, each under a name that says where it stands:
// "metadata.num_warps", "stages.0.digest". Null, "", {} and [] are left out.
using FlatFields = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] FlatFields Flatten(const Json& json);
[[nodiscard]] FlatFields Flatten(const admin::v1::InspectArtifactResponse& found);
[[nodiscard]] FlatFields Flatten(const admin::v1::GetStatsResponse& stats);

// A value of a flat object.
using JsonScalar =
    std::variant<std::nullptr_t, bool, uint64_t, std::string, std::vector<std::string>>;
using JsonFields = std::vector<std::pair<std::string_view, JsonScalar>>;
// Such an object, as Dump.
[[nodiscard]] std::string DumpFields(const JsonFields& fields);

// INVALID_ARGUMENT for what is beyond 64 bits with a sign. REQUIRES: `json` is an integer.
[[nodiscard]] absl::StatusOr<int64_t> ToInt64(const Json& json);

// A message's fields under the names they have in protos/kiln/v1; digests as hex; absent ones are
// left out.
[[nodiscard]] Json ToJson(const v1::KernelMetadata& metadata);
[[nodiscard]] Json ToJson(const v1::Provenance& provenance);
[[nodiscard]] Json ToJson(const v1::StageBlob& stage);
[[nodiscard]] Json ToJson(const v1::StageTiming& timing);
[[nodiscard]] Json ToJson(const v1::CompileNote& note);
[[nodiscard]] Json ToJson(const v1::CompileDiagnostics& diagnostics);
[[nodiscard]] Json ToJson(const google::protobuf::RepeatedPtrField<v1::StageBlob>& stages);
[[nodiscard]] Json ToJson(const google::protobuf::RepeatedPtrField<v1::StageTiming>& timings);

}  // namespace kiln::cli
