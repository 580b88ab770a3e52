// The folder that compiled kernels are written to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Each file appears complete or not at all, and never outside the folder, whatever a kernel is
// called; a command that is interrupted leaves nothing else. Replaces files of an earlier run. Not
// thread-safe; blocks as a disk does.
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

  // index.json says which file belongs to which name. It is of what is written from here on, …
  void StartIndex() { index_.emplace(); }
  // … and is there from here on.
  [[nodiscard]] absl::Status FinishIndex();

 private:
  explicit OutputDirectory(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  // Its entries. FileNames keeps as much for each.
  std::optional<std::string> index_;
};

// Replaces a file in one step: written without a name, and named when it is complete. Where that is
// not possible (NFS, say), written under a temporary name and renamed.
[[nodiscard]] absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace kiln::cli
