#include "daemon/toolchain/worker_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "storage/base/limits.h"

namespace kiln {
namespace {

// What triton_worker.py imports, from beside itself.
constexpr std::string_view kPackage = "kiln_triton_worker";

// Relative to `directory`, sorted.
absl::StatusOr<std::vector<std::string>> ListModules(const std::filesystem::path& directory,
                                                     Filesystem& filesystem) {
  const auto entries = filesystem.List(directory / kPackage);
  if (absl::IsNotFound(entries.status())) return std::vector<std::string>();
  KILN_RETURN_IF_ERROR(entries.status());
  std::vector<std::string> modules;
  for (const DirectoryEntry& entry : *entries) {
    if (entry.name.ends_with(".py")) modules.push_back(fmt::format("{}/{}", kPackage, entry.name));
  }
  std::sort(modules.begin(), modules.end());
  return modules;
}

}  // namespace

absl::StatusOr<Digest> DigestOfWorker(const std::string& program, Filesystem& filesystem) {
  const std::filesystem::path path(program);
  KILN_ASSIGN_OR_RETURN(std::vector<std::string> files,
                        ListModules(path.parent_path(), filesystem));
  files.insert(files.begin(), path.filename());
  std::string lines;
  for (const std::string& file : files) {
    KILN_ASSIGN_OR_RETURN(
        const std::string content,
        filesystem.Read(path.parent_path() / file, limits::kWorkerProgramBytesMax));
    lines += fmt::format("{}  {}\n", Digest::Of(content).Hex(), file);
  }
  return Digest::Of(lines);
}

}  // namespace kiln
