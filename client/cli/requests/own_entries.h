// What a recording says besides requests: entries of the recording user's own namespace, which are
// the keys that a job looks up by before it lowers a kernel, and the times of its tunings.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kiln/v1/kernel_service.pb.h"
#include "storage/base/status.h"

namespace kiln::cli {

// Whether a line of a file of requests is such an entry, and no request.
[[nodiscard]] bool IsOwnEntryLine(std::string_view line);

// Every entry of a manifest of either form. Passes over lines that cannot be read; the first error
// of `visit` ends it. Holds one line or one page. DATA_LOSS: a page is damaged.
[[nodiscard]] absl::Status ForEachOwnEntry(
    const std::string& path, const std::function<absl::Status(const v1::OwnEntry&)>& visit);

// Whether an entry is the times of a tuning, which users may share; otherwise it is a kernel's key.
[[nodiscard]] bool IsTuning(const v1::OwnEntry& entry);

// Whether nobody but this user and root can have written the file. Own entries decide what a job is
// given, so those of others are not taken.
[[nodiscard]] bool IsTrusted(const std::string& path);

}  // namespace kiln::cli
