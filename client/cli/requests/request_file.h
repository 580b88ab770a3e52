// A file of compile requests: a manifest (docs/manifest.md), or one JSON object a line
// (docs/cli.md).
#pragma once

#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/cli/requests/manifest_reader.h"
#include "client/cli/requests/named_request.h"
#include "kiln/v1/manifest.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Holds one line or one page of a manifest; passes over lines that are too long. Movable. Not
// thread-safe.
class RequestFile {
 public:
  // "-" is the standard input, which has lines. NOT_FOUND, PERMISSION_DENIED; INVALID_ARGUMENT for
  // a name like that of a source; what ManifestReader::Open says.
  [[nodiscard]] static absl::StatusOr<RequestFile> Open(const std::string& path);

  // Lines. `folder` is what a `source_file` is relative to.
  RequestFile(std::shared_ptr<std::istream> stream, std::string folder);

  // Nothing at the end. Skips empty lines.
  std::optional<NamedRequest> Next();

  // What the requests were recorded by. Lines may say it anywhere, so it is complete at the end.
  const v1::ManifestOrigin& origin() const;
  // Null where the file has lines.
  const ManifestReader* manifest() const { return manifest_.get(); }

 private:
  explicit RequestFile(ManifestReader manifest);

  std::optional<NamedRequest> NextLine();

  std::unique_ptr<ManifestReader> manifest_;
  std::shared_ptr<std::istream> stream_;
  std::string folder_;
  std::unique_ptr<char[]> line_;
  uint64_t number_ = 0;
  v1::ManifestOrigin origin_;
};

// What the requests of a file were recorded by, without reading them. Lines say it where they begin
// as OriginLine writes them. Empty where the file is damaged, or cannot be read twice.
[[nodiscard]] v1::ManifestOrigin OriginOf(const std::string& path);

// `more` in `origin`, each device once. Different versions of one thing become "3.6.0, 3.7.1". A
// job, model, command or host that is not that of both is cleared; the later moment is kept.
void Merge(const v1::ManifestOrigin& more, v1::ManifestOrigin& origin);

// Whether a line says what the requests were recorded by, and is no request. Its begin will do.
[[nodiscard]] bool IsOriginLine(std::string_view line);

// A line that RequestFile reads again, without its end: of a request, and of what it was recorded
// by. REQUIRES: `named.request` is there.
[[nodiscard]] std::string RequestLine(const NamedRequest& named);
[[nodiscard]] std::string OriginLine(const v1::ManifestOrigin& origin);

}  // namespace kiln::cli
