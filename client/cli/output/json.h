// JSON as this command reads and writes it. A file that builds or reads a Json includes
// <nlohmann/json.hpp> too, which takes seconds to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/status.h"

namespace google::protobuf {
class Message;
}

namespace kiln::cli {

// Objects keep the order in which their fields were set.
using Json = nlohmann::ordered_json;

// Reads JSON of users. INVALID_ARGUMENT: not JSON, a name twice in one object, or nested deeper
// than any request. OUT_OF_RANGE: a number that fits neither 64 bits nor a double; it
// would be rounded.
[[nodiscard]] absl::StatusOr<Json> ParseJson(std::string_view text);

// One line; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string Dump(const Json& json);
// Many lines, for files that people read.
[[nodiscard]] std::string DumpPretty(const Json& json);

// The values of an object in its order, each under its path: "metadata.num_warps",
// "stages.0.digest". Leaves out null, "", {} and [].
using FlatFields = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] FlatFields Flatten(const Json& json);

// Every field of a message under its name in protos/, in the order of that file: bytes as hex, a
// target as "cuda:90", the JSON in toolchain_metadata as JSON. Leaves out optional fields that are
// not set, the content of stages, and the key of diagnostics.
[[nodiscard]] Json ToJson(const google::protobuf::Message& message);
[[nodiscard]] std::string Dump(const google::protobuf::Message& message);

}  // namespace kiln::cli
