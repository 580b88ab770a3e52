// What a recording says besides requests: entries of the recording user's own namespace, which are
// the keys that a job looks up by before it lowers a kernel, and the times of its tunings.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace kiln::cli {

// Prefix of the keys of warm markers: what `kiln warm` notes for itself, of this node alone.
inline constexpr std::string_view kWarmMarkerBegin = "kiln warmed ";

// Whether a line of a file of requests is such an entry, and no request.
[[nodiscard]] bool IsOwnEntryLine(std::string_view line);

// A line that ForEachOwnEntry reads again, without its end.
[[nodiscard]] std::string OwnEntryLine(const v1::OwnEntry& entry);

// Every entry of a manifest of either form. Passes over lines that cannot be read; the first error
// of `visit` ends it. Holds one line or one page. DATA_LOSS: a page is damaged.
[[nodiscard]] absl::Status ForEachOwnEntry(
    const std::string& path, const std::function<absl::Status(const v1::OwnEntry&)>& visit);

// Whether an entry is the times of a tuning, which users may share; otherwise it is a kernel's key.
[[nodiscard]] bool IsTuning(const v1::OwnEntry& entry);

[[nodiscard]] bool IsWarmMarker(const v1::OwnEntry& entry);

// A file that nobody but this user and root can have written. Own entries decide what a job is
// given, so those of others are not taken.
class TrustedFile {
 public:
  // Nothing where others may have written the file, or it cannot be read.
  [[nodiscard]] static std::optional<TrustedFile> Open(const std::string& path);

  // The open file's, whatever has the name meanwhile.
  std::string path() const;

 private:
  explicit TrustedFile(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace kiln::cli
