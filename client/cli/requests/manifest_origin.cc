#include "client/cli/requests/manifest_origin.h"

#include <absl/strings/match.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "storage/base/clock.h"

namespace kiln::cli {
namespace {

// The first match of the pattern's first group in the file, or "".
std::string FoundIn(const std::filesystem::path& path, const char* pattern) {
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "";
}

}  // namespace

void AddWriter(v1::ManifestOrigin& origin) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) origin.set_host(name.data());
  origin.set_created_unix_ms(SystemClock().UnixMillis());
  (*origin.mutable_versions())["kiln"] = KILN_VERSION;
}

void AddDevices(v1::ManifestOrigin& origin, const std::string& folder) {
  const std::string driver =
      FoundIn(folder + "/version", R"(Kernel Module.*\s([0-9]+(\.[0-9]+)+)\s)");
  if (!driver.empty()) AddVersion("driver", driver, origin);
  std::set<std::string> models;
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator(folder + "/gpus", error)) {
    models.insert(FoundIn(gpu.path() / "information", R"(Model:\s*(.*\S))"));
  }
  models.erase("");
  for (const std::string& model : models) origin.add_devices(model);
}

void AddVersion(const std::string& tool, const std::string& version, v1::ManifestOrigin& origin) {
  std::string& known = (*origin.mutable_versions())[tool];
  if (absl::StrContains(", " + known + ", ", ", " + version + ", ")) return;
  known += (known.empty() ? "" : ", ") + version;
}

}  // namespace kiln::cli
