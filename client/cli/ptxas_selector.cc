#include "client/cli/ptxas_selector.h"

#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>

#include "storage/base/digest.h"
#include "storage/base/limits.h"

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

}  // namespace

absl::StatusOr<std::string> PtxasSelector(std::string_view word) {
  if (word.find('/') == std::string_view::npos) return std::string(word);
  // Every line of a file of requests names the same one, and it takes 30 MB of reading.
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, std::string>();
  std::lock_guard lock(mutex);
  std::string& digest = (*known)[std::string(word)];
  if (digest.empty()) {
    KILN_ASSIGN_OR_RETURN(digest, Sha256Of(std::string(word)));
  }
  return digest;
}

}  // namespace kiln::cli
