// The folder that compiled kernels are written to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Each file appears complete or not at all, and never outside the folder. An interrupted command
// leaves no other files. Replaces files of an earlier run. Not thread-safe; blocks as a disk does.
class OutputDirectory {
 public:
  // Makes the folder, parents included.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OutputDirectory>> Open(std::string path);
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  // `file`.<stage> for every stage with content, and `file`.json with everything else.
  // REQUIRES: `file` comes from FileNames.
  [[nodiscard]] absl::Status Write(const std::string& name, const std::string& file,
                                   const v1::CompileResponse& response);

  // index.json maps names to files. It covers what Write writes between these two calls, and
  // FinishIndex writes it.
  void StartIndex() { index_.emplace(); }
  [[nodiscard]] absl::Status FinishIndex();

 private:
  explicit OutputDirectory(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  // The entries of index.json.
  std::optional<std::string> index_;
};

// Replaces a file in one step: writes an unnamed file and links it. Where that is not possible
// (NFS), writes under a temporary name and renames.
[[nodiscard]] absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace kiln::cli
