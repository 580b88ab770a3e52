// The folder that compiled kernels are written to.
#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Each file appears complete or not at all (written under a temporary name, then renamed), and
// never outside the folder, whatever a kernel is called. Replaces files of an earlier run. Not
// thread-safe; blocks as a disk does.
class OutputDirectory {
 public:
  // Makes the folder, parents included.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OutputDirectory>> Open(std::string path);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  // `file`.<stage> for every stage with content, and `file`.json with everything else.
  // REQUIRES: `file` comes from FileNames.
  [[nodiscard]] absl::Status Write(const std::string& name, const std::string& file,
                                   const v1::CompileResponse& response);

  // index.json says which file belongs to which name; kept up by each Write from here on.
  [[nodiscard]] absl::Status StartIndex();
  [[nodiscard]] absl::Status FinishIndex();

 private:
  explicit OutputDirectory(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::ofstream index_;
  bool has_index_entries_ = false;
};

// Replaces a file in one step.
[[nodiscard]] absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace kiln::cli
