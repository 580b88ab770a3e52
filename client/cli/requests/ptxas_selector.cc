#include "client/cli/requests/ptxas_selector.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>

#include "client/cli/output/format.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/mutex.h"
#include "storage/base/release.h"

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

bool Has(const v1::ListToolchainsResponse& listed, std::string_view fingerprint) {
  const auto& there = listed.toolchains();
  return std::any_of(there.begin(), there.end(), [&](const v1::Toolchain& served) {
    return Hex(served.fingerprint()) == fingerprint;
  });
}

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

NamedCompilers NamedCompilers::Of(const NamedRequest& named) {
  const v1::CompileRequest& request = *named.request;
  const v1::SourceKind kind = request.source().kind();
  const bool is_tritons = kind == v1::SOURCE_KIND_TTIR || kind == v1::SOURCE_KIND_TTGIR;
  return {request.toolchain(), request.ptxas(), is_tritons ? named.recorded.triton : ""};
}

absl::Status AbsentCompilers::Annotated(const absl::Status& status, const NamedCompilers& named) {
  if (!absl::IsFailedPrecondition(status)) return status;
  std::string words = WordsOnPtxas(named.ptxas);
  if (words.empty()) words = WordsOnTriton(named);
  return words.empty() ? status : Annotate(status, words);
}

std::string AbsentCompilers::WordsOnPtxas(const std::string& selector) {
  if (selector.empty()) return "";
  std::string path;
  {
    const MutexLock lock(digests_mutex);
    const auto file = std::find_if(digests_by_path.begin(), digests_by_path.end(),
                                   [&](const auto& each) { return each.second == selector; });
    if (file == digests_by_path.end()) return "";
    path = file->first;
  }
  // A ptxas that the daemon has may not fit, and another toolchain may be what is missing.
  const v1::ListToolchainsResponse* const listed = Listed();
  if (listed == nullptr || Has(*listed, selector)) return "";
  return fmt::format(
      "{}: the daemon has no ptxas of these bytes; where it is one, 'kiln toolchain add ptxas "
      "--path DIR' with its directory adds it",
      path);
}

std::string AbsentCompilers::WordsOnTriton(const NamedCompilers& named) {
  const bool is_fingerprint = named.toolchain.size() == 2 * Digest::kSizeBytes;
  const bool is_one = named.triton.find(',') == std::string::npos;  // a merged manifest has several
  if (named.triton.empty() || !is_one || !is_fingerprint) return "";
  const v1::ListToolchainsResponse* const listed = Listed();
  if (listed == nullptr || Has(*listed, named.toolchain)) return "";
  const auto& there = listed->toolchains();
  const bool has_version = std::any_of(there.begin(), there.end(), [&](const auto& served) {
    return served.name() == "triton" && served.version() == named.triton;
  });
  if (has_version || !IsRelease(named.triton)) {
    return fmt::format(
        "recorded with {}Triton {}, which the daemon does not have; 'kiln toolchain add triton "
        "--path DIR' adds the one that is installed in DIR",
        has_version ? "another build of " : "", named.triton);
  }
  return fmt::format(
      "recorded with Triton {0}, which the daemon does not have; 'kiln toolchain add triton=={0}' "
      "installs the one of PyPI",
      named.triton);
}

const v1::ListToolchainsResponse* AbsentCompilers::Listed() {
  if (!listed_.has_value()) listed_ = client_.ListToolchains(call_);
  return listed_->ok() ? &**listed_ : nullptr;
}

}  // namespace kiln::cli
