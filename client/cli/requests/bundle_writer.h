// Writes bundles.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/cli/output/unfinished_file.h"
#include "kiln/v1/bundle.pb.h"
#include "storage/base/status.h"
#include "storage/bundle/signature.h"

namespace kiln::cli {

// The file appears under its name once Finish has returned OK. Not thread-safe.
// Errors of writing are those of the system.
class BundleWriter {
 public:
  // Without a key the bundle is not signed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BundleWriter>> Create(
      const std::string& path, std::optional<SigningKey> key);

  // A block with so many artifacts, as the daemon made it.
  [[nodiscard]] absl::Status Add(std::string_view frame, uint64_t artifacts);
  // Copies the file of the manifest that the bundle was made from.
  [[nodiscard]] absl::Status AddManifest(const std::string& path);
  // REQUIRES: called once, as the last call.
  [[nodiscard]] absl::Status Finish();

  uint64_t artifacts() const { return artifacts_; }
  uint64_t bytes() const { return file_->bytes(); }  // of the file

 private:
  BundleWriter(std::unique_ptr<UnfinishedFile> file, std::optional<SigningKey> key)
      : file_(std::move(file)), key_(std::move(key)) {}

  absl::Status WriteBlock(const v1::BundleBlock& block);
  absl::Status WriteFrame(std::string_view frame);

  const std::unique_ptr<UnfinishedFile> file_;
  const std::optional<SigningKey> key_;
  std::string id_;
  uint64_t number_ = 0;
  uint64_t artifacts_ = 0;
};

}  // namespace kiln::cli
