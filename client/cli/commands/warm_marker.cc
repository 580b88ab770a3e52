#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "client/cli/commands/warmth.h"
#include "client/cli/requests/manifest_reader.h"
#include "client/cli/requests/own_entries.h"
#include "storage/base/digest.h"
#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"
#include "storage/hot/artifact_layout.h"

namespace kiln::cli {
namespace {

constexpr char kKeysFile[] = "keys";
constexpr size_t kKeysBytesMax = limits::kUserCacheEntryBytesMax / 2;

bool AddFile(const std::string& path, DigestBuilder& digest) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return false;
  std::array<char, 64 * limits::kKiB> bytes;
  ssize_t got = 0;
  uint64_t size = 0;
  while ((got = ::read(file.get(), bytes.data(), bytes.size())) > 0) {
    digest.Update({bytes.data(), static_cast<size_t>(got)});
    size += static_cast<uint64_t>(got);
  }
  digest.Update(fmt::format("/{}/", size));
  return got == 0;
}

void AddMessage(const google::protobuf::MessageLite& message, DigestBuilder& digest) {
  const std::string bytes = message.SerializeAsString();
  digest.Update(fmt::format("{}:", bytes.size()));
  digest.Update(bytes);
}

}  // namespace

std::optional<std::string> WarmMarker::NameOf(const WarmthQuestion& question,
                                              const std::string& hot_directory) {
  v1::CompileRequest shape = question.shape.request;
  if (shape.cache_policy() > v1::CACHE_POLICY_USE) return std::nullopt;
  shape.clear_priority();
  shape.clear_job();
  DigestBuilder digest;
  AddMessage(shape, digest);
  for (const v1::Target& target : question.shape.targets) AddMessage(target, digest);
  // Another version may compute keys in another way.
  digest.Update(fmt::format("{}/{} {}", question.shard.number, question.shard.count, KILN_VERSION));
  // The daemon's toolchains say which compiler a request means.
  if (!AddFile(hot_directory + "/" + kPublishedToolchains, digest)) return std::nullopt;
  for (const std::string& path : question.files) {
    if (!ManifestReader::IsManifest(path) || !AddFile(path, digest)) return std::nullopt;
  }
  return fmt::format("{}requests {}", kWarmMarkerBegin, digest.Finish().Bytes());
}

std::optional<WarmMarker::Found> WarmMarker::Find(const CallOptions& call) const {
  if (!name_) return std::nullopt;
  const auto entries = client_.GetOwn({*name_}, call);
  if (!entries.ok() || entries->size() != 1 || entries->front().files_size() != 1) {
    return std::nullopt;
  }
  const std::string& bytes = entries->front().files(0).content();
  std::vector<std::string> keys;
  Found found;
  for (size_t at = 0; at + Digest::kSizeBytes <= bytes.size(); at += Digest::kSizeBytes) {
    keys.push_back(bytes.substr(at, Digest::kSizeBytes));
    const auto artifact = client_.FindHot(keys.back());
    if (!artifact.ok()) return std::nullopt;
    found.bytes += artifact->binary().size();
  }
  found.kernels = keys.size();
  // Kernels that are not leased are to be named.
  const auto not_leased = client_.NoteWarmed(keys, question_.shape.request.job(), call);
  if (!not_leased.ok() || *not_leased > 0) return std::nullopt;
  return found;
}

void WarmMarker::Add(const std::string& key) {
  if (name_ && keys_.size() <= kKeysBytesMax) keys_ += key;
}

void WarmMarker::Keep(const CallOptions& call) const {
  const bool is_kept = !keys_.empty() && keys_.size() <= kKeysBytesMax;
  if (!name_ || !is_kept || NameOf(question_, client_.hot_directory()) != name_) return;
  v1::OwnEntry entry;
  entry.set_key(*name_);
  v1::OwnFile& file = *entry.add_files();
  file.set_name(kKeysFile);
  file.set_content(keys_);
  // Without it, the next warm takes longer.
  (void)client_.PutOwn({entry}, call);
}

}  // namespace kiln::cli
