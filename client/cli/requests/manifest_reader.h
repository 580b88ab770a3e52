// Reads a manifest: docs/manifest.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/requests/named_request.h"
#include "kiln/v1/manifest.pb.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln::cli {

// Holds the index, one page and one source. Not thread-safe; blocks as a disk does.
class ManifestReader {
 public:
  // Whether the file begins as a manifest.
  [[nodiscard]] static bool IsManifest(const std::string& path);
  // DATA_LOSS: cut off or damaged. FAILED_PRECONDITION: of a newer format.
  [[nodiscard]] static absl::StatusOr<ManifestReader> Open(const std::string& path);

  const v1::ManifestIndex& index() const { return *index_; }

  // Nothing at the end. A request whose source is damaged has its status; after a damaged page
  // there is one such request and then nothing.
  std::optional<NamedRequest> Next();

  // DATA_LOSS. REQUIRES: `number` < index().own_pages_size().
  [[nodiscard]] absl::StatusOr<v1::ManifestOwnPage> OwnPage(int number) const;

 private:
  ManifestReader(UniqueFd file, std::unique_ptr<v1::ManifestIndex> index);

  absl::StatusOr<std::string> ReadFrame(uint64_t offset, uint64_t size, size_t bytes_max) const;
  absl::Status ReadPage();
  absl::StatusOr<v1::CompileRequest> RequestOf(v1::ManifestRequest& entry) const;

  UniqueFd file_;
  std::unique_ptr<v1::ManifestIndex> index_;
  int next_page_ = 0;
  v1::ManifestPage page_;
  int next_in_page_ = 0;
  int next_ = 0;
};

}  // namespace kiln::cli
