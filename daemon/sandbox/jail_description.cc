#include "daemon/sandbox/jail_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/process/json_reader.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr size_t kJailPathsMax = 1024;
constexpr size_t kJailPathBytesMax = 4096;
constexpr size_t kFilterInstructionsMax = 4096;  // the kernel's BPF_MAXINSNS

bool AreNumbersUpTo(const Json& row, std::initializer_list<uint64_t> maxima) {
  if (!row.is_array() || row.size() != maxima.size()) return false;
  return std::equal(row.begin(), row.end(), maxima.begin(), [](const Json& value, uint64_t max) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= max;
  });
}

}  // namespace

Json EncodeLimits(const WorkerLimits& limits) {
  return {{"file_bytes", limits.file_bytes},    {"address_space_bytes", limits.address_space_bytes},
          {"cpu_seconds", limits.cpu_seconds},  {"processes", limits.processes},
          {"descriptors", limits.descriptors},  {"disk_bytes", limits.disk_bytes},
          {"disk_entries", limits.disk_entries}};
}

Json EncodeJail(const JailDescription& jail) {
  Json paths = Json::array();
  for (const JailPath& path : jail.paths) paths.push_back(Json::array({path.path, path.access}));
  Json filter = Json::array();
  for (const sock_filter& one : jail.filter) {
    filter.push_back(Json::array({one.code, one.jt, one.jf, one.k}));
  }
  return {{"files", jail.handled_files},
          {"network", jail.handled_network},
          {"scopes", jail.scopes},
          {"paths", std::move(paths)},
          {"filter", std::move(filter)}};
}

absl::StatusOr<WorkerLimits> DecodeLimits(const Json& json) {
  JsonReader reader(json, "a worker's limits");
  WorkerLimits limits;
  limits.file_bytes = reader.Count("file_bytes", INT64_MAX);
  limits.address_space_bytes = reader.Count("address_space_bytes", INT64_MAX);
  limits.cpu_seconds = reader.Count("cpu_seconds", UINT32_MAX);
  limits.processes = reader.Count("processes", UINT32_MAX);
  limits.descriptors = reader.Count("descriptors", UINT32_MAX);
  limits.disk_bytes = reader.Count("disk_bytes", INT64_MAX);
  limits.disk_entries = reader.Count("disk_entries", INT64_MAX);
  KILN_RETURN_IF_ERROR(reader.status());
  return limits;
}

absl::StatusOr<JailDescription> DecodeJail(const Json& json) {
  JsonReader reader(json, "a jail");
  JailDescription jail;
  jail.handled_files = reader.Count("files", UINT32_MAX);
  jail.handled_network = reader.Count("network", UINT32_MAX);
  jail.scopes = reader.Count("scopes", UINT32_MAX);
  for (const Json& row : reader.Array("paths", kJailPathsMax)) {
    const bool is_path = row.is_array() && row.size() == 2 && row[0].is_string() &&
                         row[0].get_ref<const std::string&>().size() <= kJailPathBytesMax &&
                         row[1].is_number_unsigned();
    if (!is_path) return Internal("a jail's path is not a path and its rights");
    jail.paths.push_back({row[0].get<std::string>(), row[1].get<uint64_t>()});
  }
  for (const Json& row : reader.Array("filter", kFilterInstructionsMax)) {
    if (!AreNumbersUpTo(row, {UINT16_MAX, UINT8_MAX, UINT8_MAX, UINT32_MAX})) {
      return Internal("a jail's filter has something that is not an instruction");
    }
    jail.filter.push_back({row[0].get<uint16_t>(), row[1].get<uint8_t>(), row[2].get<uint8_t>(),
                           row[3].get<uint32_t>()});
  }
  KILN_RETURN_IF_ERROR(reader.status());
  return jail;
}

}  // namespace kiln
