// Writes a manifest: docs/manifest.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/cli/output/unfinished_file.h"
#include "client/cli/requests/named_request.h"
#include "kiln/v1/manifest.pb.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Holds some 200 bytes for each request, and one page. The file appears under its name once Finish
// has returned OK. Not thread-safe; blocks as a disk does.
class ManifestWriter {
 public:
  // The system's own error where the folder cannot be written to.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ManifestWriter>> Create(
      const std::string& path);

  // A request that is in it already is only counted. REQUIRES: `named.request` is there.
  [[nodiscard]] absl::Status Add(const NamedRequest& named);
  // The first of several entries with one key counts.
  [[nodiscard]] absl::Status AddOwn(const v1::OwnEntry& entry);
  // REQUIRES: called once, as the last call.
  [[nodiscard]] absl::Status Finish(const v1::ManifestOrigin& origin);
  // In place of Finish: the manifest never has its name. Returns a path to read it by. Valid while
  // the writer lives.
  [[nodiscard]] absl::StatusOr<std::string> FinishUnnamed(const v1::ManifestOrigin& origin);

  uint64_t requests() const { return digests_.size(); }
  uint64_t own_entries() const { return own_keys_.size(); }
  bool IsEmpty() const { return requests() + own_entries() == 0; }
  uint64_t sources() const { return sources_.size(); }

 private:
  explicit ManifestWriter(std::unique_ptr<UnfinishedFile> file) : file_(std::move(file)) {}

  absl::StatusOr<v1::ManifestPlace> WriteFrame(std::string_view content);
  absl::Status WritePage();
  absl::Status WriteOwnPage();
  absl::Status WriteEnd(const v1::ManifestOrigin& origin);

  const std::unique_ptr<UnfinishedFile> file_;
  std::unordered_map<Digest, v1::ManifestPlace, DigestHash> sources_;
  std::unordered_map<Digest, int, DigestHash> digests_;  // the request's number in the index
  v1::ManifestPage page_;
  size_t page_bytes_ = 0;
  std::unordered_set<std::string> own_keys_;
  v1::ManifestOwnPage own_page_;
  size_t own_page_bytes_ = 0;
  v1::ManifestIndex index_;
};

// SHA-256 over the digests in ascending order.
[[nodiscard]] Digest ManifestDigest(std::vector<Digest> requests);

}  // namespace kiln::cli
