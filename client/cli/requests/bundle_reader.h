// Reads bundles, from the beginning to the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln::cli {

// One block as it stands in the file. Nothing of it was checked.
struct BundleFrame {
  uint64_t number = 0;
  std::string frame;
  std::string signature;
};

// Holds one block. Not thread-safe.
class BundleReader {
 public:
  // "-": the standard input. DATA_LOSS: it is no bundle. FAILED_PRECONDITION: it has a later
  // version.
  [[nodiscard]] static absl::StatusOr<BundleReader> Open(const std::string& path);

  const std::string& id() const { return id_; }
  // Nothing at the end of the file. DATA_LOSS: it is cut off within a block, or damaged.
  [[nodiscard]] absl::StatusOr<std::optional<BundleFrame>> Next();

 private:
  BundleReader(UniqueFd file, std::string id) : file_(std::move(file)), id_(std::move(id)) {}

  UniqueFd file_;
  std::string id_;
  uint64_t number_ = 0;
};

}  // namespace kiln::cli
