#include "client/cli/requests/ptxas_selector.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>

#include "client/cli/output/format.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"

namespace kiln::cli {

namespace {

// Toolchains come and go, and so does the daemon.
constexpr auto kListedTime = std::chrono::seconds(1);

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
// one, and it takes 30 MB of reading.
class NamedFiles {
 public:
  static NamedFiles& Instance() {
    static auto* const files = new NamedFiles();
    return *files;
  }

  absl::StatusOr<std::string> DigestOf(const std::string& path) {
    const std::lock_guard lock(mutex_);
    std::string& digest = digests_[path];
    if (digest.empty()) {
      KILN_ASSIGN_OR_RETURN(digest, Sha256Of(path));
    }
    return digest;
  }

  // "" where none has it.
  std::string PathOf(std::string_view digest) {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, of_path] : digests_) {
      if (of_path == digest) return path;
    }
    return "";
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> digests_;
};

bool IsListed(const v1::ListToolchainsResponse& listed, std::string_view fingerprint) {
  return std::any_of(
      listed.toolchains().begin(), listed.toolchains().end(),
      [&](const v1::Toolchain& one) { return Hex(one.fingerprint()) == fingerprint; });
}

}  // namespace

absl::StatusOr<std::string> PtxasSelector(std::string_view word) {
  if (word.find('/') == std::string_view::npos) return std::string(word);
  return NamedFiles::Instance().DigestOf(std::string(word));
}

absl::Status PtxasNamer::Annotated(const absl::Status& status, std::string_view selector) {
  if (!absl::IsFailedPrecondition(status) || selector.empty()) return status;
  const std::string path = NamedFiles::Instance().PathOf(selector);
  if (path.empty()) return status;
  // One that is there may not fit, and another toolchain may be what is missing.
  if (std::chrono::steady_clock::now() >= listed_until_) {
    listed_ = client_.ListToolchains(call_);
    listed_until_ = std::chrono::steady_clock::now() + kListedTime;
  }
  if (!listed_.ok() || IsListed(*listed_, selector)) return status;
  return Annotate(status,
                  fmt::format("{}: the daemon has no ptxas of these bytes; where it is one, "
                              "'kiln toolchain add ptxas --path DIR' with its directory "
                              "adds it",
                              path));
}

}  // namespace kiln::cli
