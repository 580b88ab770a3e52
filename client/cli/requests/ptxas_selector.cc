#include "client/cli/requests/ptxas_selector.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>

#include "client/cli/output/format.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"

namespace kiln::cli {
namespace {

absl::StatusOr<std::string> Sha256Of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) return ErrnoStatus(errno, path);
  DigestBuilder builder;
  std::string buffer(limits::kMiB, '\0');
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         stream.gcount() > 0) {
    builder.Update(std::string_view(buffer).substr(0, static_cast<size_t>(stream.gcount())));
  }
  if (stream.bad()) return ErrnoStatus(errno, "read " + path);
  return builder.Finish().Hex();
}

// The files that were named, each with its digest. Every line of a file of requests names the same
// file, which takes 30 MB of reading.
Mutex digests_mutex;
std::map<std::string, std::string> digests_by_path KILN_GUARDED_BY(digests_mutex);

}  // namespace

absl::StatusOr<std::string> PtxasSelector(std::string_view word) {
  std::string path(word);
  if (path.find('/') == std::string::npos) return path;
  const MutexLock lock(digests_mutex);
  std::string& digest = digests_by_path[path];
  if (digest.empty()) {
    KILN_ASSIGN_OR_RETURN(digest, Sha256Of(path));
  }
  return digest;
}

absl::Status PtxasNamer::Annotated(const absl::Status& status, std::string_view selector) {
  if (!absl::IsFailedPrecondition(status) || selector.empty()) return status;
  const MutexLock lock(digests_mutex);
  const auto file = std::find_if(digests_by_path.begin(), digests_by_path.end(),
                                 [&](const auto& each) { return each.second == selector; });
  if (file == digests_by_path.end()) return status;
  // A ptxas that the daemon has may not fit, and another toolchain may be what is missing.
  if (!listed_.has_value()) listed_ = client_.ListToolchains(call_);
  if (!listed_->ok()) return status;
  for (const v1::Toolchain& served : (**listed_).toolchains()) {
    if (Hex(served.fingerprint()) == selector) return status;
  }
  return Annotate(status,
                  fmt::format("{}: the daemon has no ptxas of these bytes; where it is one, "
                              "'kiln toolchain add ptxas --path DIR' with its directory "
                              "adds it",
                              file->first));
}

}  // namespace kiln::cli
