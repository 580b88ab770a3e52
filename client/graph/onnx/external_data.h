// Data of an ONNX model in files beside it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kiln::graph {

// A whole regular file. INVALID_ARGUMENT: it cannot be read, or has more than `bytes_max`.
[[nodiscard]] absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                                        uint64_t bytes_max);
// Where a model's external data lies: in these folders or below.
struct DataFolders {
  std::string model = {};  // locations are relative to it
  // That of the model's own file, behind symbolic links: a cache may have its files in one folder,
  // and links to them in others. Empty: there is no file.
  std::string file = {};
};

[[nodiscard]] DataFolders DataFoldersOf(const std::string& model_path);
// `bytes` of the file from `offset` on. `location` leads to a regular file in the folders, symbolic
// links followed; all else is INVALID_ARGUMENT, as a file that is too short is.
[[nodiscard]] absl::StatusOr<std::string> ReadExternalData(const DataFolders& folders,
                                                           std::string_view location,
                                                           uint64_t offset, uint64_t bytes);

}  // namespace kiln::graph
