// Writes bundles.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kiln/v1/bundle.pb.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/bundle/signature.h"

namespace kiln::cli {

// Holds one block. The file appears under its name once Finish has returned OK; until then it has
// another name beside it, and the destructor removes that. Not thread-safe. Errors of writing are
// those of the system.
class BundleWriter {
 public:
  // Without a key the bundle is not signed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BundleWriter>> Create(
      std::string path, std::optional<SigningKey> key);
  ~BundleWriter();
  BundleWriter(const BundleWriter&) = delete;
  BundleWriter& operator=(const BundleWriter&) = delete;

  // False: it is larger than a block may be, and left out.
  [[nodiscard]] absl::StatusOr<bool> Add(v1::BundleArtifact artifact);
  // Copies the file of the manifest that the bundle was made from.
  [[nodiscard]] absl::Status AddManifest(const std::string& path);
  // REQUIRES: called once, as the last call.
  [[nodiscard]] absl::Status Finish();

  uint64_t artifacts() const { return artifacts_; }
  uint64_t bytes() const { return bytes_; }  // of the file

 private:
  BundleWriter(std::string path, std::string unfinished, UniqueFd file,
               std::optional<SigningKey> key);

  absl::Status WriteBlock();
  absl::Status WriteFrame(std::string_view frame);
  absl::Status Write(std::string_view bytes);

  const std::string path_;
  std::string unfinished_;  // empty: the file has its name
  UniqueFd file_;
  const std::optional<SigningKey> key_;
  std::string id_;
  uint64_t number_ = 0;
  v1::BundleBlock block_;
  size_t block_bytes_ = 0;
  uint64_t artifacts_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace kiln::cli
