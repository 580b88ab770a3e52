#include "daemon/sandbox/jail_description.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace kiln {
namespace {

using Json = nlohmann::json;

}  // namespace

NLOHMANN_JSON_SERIALIZE_ENUM(ViewEntry::Kind,
                             {{ViewEntry::Kind::kDirectory, "directory"},
                              {ViewEntry::Kind::kLink, "link"},
                              {ViewEntry::Kind::kShownDirectory, "shown directory"},
                              {ViewEntry::Kind::kShownFile, "shown file"}})

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerLimits, file_bytes, address_space_bytes, cpu_seconds,
                                   processes, descriptors, disk_bytes, disk_entries)

Json EncodeLimits(const WorkerLimits& limits) { return limits; }

Json EncodeJail(const JailDescription& jail) {
  Json paths = Json::array();
  for (const JailPath& path : jail.paths) paths.push_back(Json::array({path.path, path.access}));
  Json filter = Json::array();
  for (const sock_filter& one : jail.filter) filter.push_back(std::bit_cast<uint64_t>(one));
  Json view = Json::array();
  for (const ViewEntry& entry : jail.view) {
    view.push_back(Json::array({entry.kind, entry.path, entry.target}));
  }
  return {{"files", jail.handled_files}, {"network", jail.handled_network},
          {"scopes", jail.scopes},       {"paths", std::move(paths)},
          {"filter", std::move(filter)}, {"view", std::move(view)}};
}

absl::StatusOr<WorkerLimits> DecodeLimits(const Json& json) {
  try {
    return json.get<WorkerLimits>();
  } catch (const Json::exception& error) {
    return Internal("a worker's limits: {}", error.what());
  }
}

absl::StatusOr<JailDescription> DecodeJail(const Json& json) {
  using Paths = std::vector<std::pair<std::string, uint64_t>>;
  using View = std::vector<std::tuple<ViewEntry::Kind, std::string, std::string>>;
  try {
    JailDescription jail;
    json.at("files").get_to(jail.handled_files);
    json.at("network").get_to(jail.handled_network);
    json.at("scopes").get_to(jail.scopes);
    for (const auto& [path, access] : json.at("paths").get<Paths>()) {
      jail.paths.push_back({path, access});
    }
    for (const uint64_t one : json.at("filter").get<std::vector<uint64_t>>()) {
      jail.filter.push_back(std::bit_cast<sock_filter>(one));
    }
    for (const auto& [kind, path, target] : json.at("view").get<View>()) {
      jail.view.push_back({kind, path, target});
    }
    return jail;
  } catch (const Json::exception& error) {
    return Internal("a jail: {}", error.what());
  }
}

}  // namespace kiln
