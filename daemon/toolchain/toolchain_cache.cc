#include "daemon/toolchain/toolchain_cache.h"

#include <unistd.h>

#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

std::string DescriptionName(const Digest& fingerprint, const Digest& script) {
  return fmt::format("{}-{}.description.json", fingerprint.Hex(), script.ShortHex());
}

}  // namespace

ToolchainCache::ToolchainCache(std::string directory, Filesystem& filesystem)
    : directory_(std::move(directory)), filesystem_(filesystem) {
  if (directory_.empty()) return;
  if (const absl::Status made = filesystem_.MakeDirectory(directory_, 0700); !made.ok()) {
    LogWarning("toolchains are examined at every start", {{"error", Message(made)}});
  }
}

std::optional<Digest> ToolchainCache::FindFingerprint(const Digest& listing) {
  const std::optional<std::string> text = Read(listing.Hex() + ".fingerprint");
  if (!text) return std::nullopt;
  const absl::StatusOr<Digest> fingerprint = Digest::FromHex(*text);
  return fingerprint.ok() ? std::optional<Digest>(*fingerprint) : std::nullopt;
}

void ToolchainCache::StoreFingerprint(const Digest& listing, const Digest& fingerprint) {
  Write(listing.Hex() + ".fingerprint", fingerprint.Hex());
}

std::optional<std::string> ToolchainCache::FindDescription(const Digest& fingerprint,
                                                           const Digest& script) {
  return Read(DescriptionName(fingerprint, script));
}

void ToolchainCache::StoreDescription(const Digest& fingerprint, const Digest& script,
                                      const std::string& description) {
  Write(DescriptionName(fingerprint, script), description);
}

void ToolchainCache::RemoveUnused() {
  if (directory_.empty()) return;
  const auto entries = filesystem_.List(directory_);
  if (!entries.ok()) return;
  std::lock_guard lock(mutex_);
  for (const DirectoryEntry& entry : *entries) {
    if (entry.kind == DirectoryEntry::Kind::kFile && !used_.contains(entry.name)) {
      filesystem_.Remove(directory_ + "/" + entry.name).IgnoreError();
    }
  }
}

std::optional<std::string> ToolchainCache::Read(const std::string& name) {
  if (directory_.empty()) return std::nullopt;
  {
    std::lock_guard lock(mutex_);
    used_.insert(name);
  }
  auto content = filesystem_.Read(directory_ + "/" + name, limits::kRecordBytesMax);
  return content.ok() ? std::optional<std::string>(*std::move(content)) : std::nullopt;
}

void ToolchainCache::Write(const std::string& name, const std::string& content) {
  if (directory_.empty()) return;
  const std::string path = directory_ + "/" + name;
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  absl::Status written = filesystem_.WriteNew(temporary, content, 0600);
  if (written.ok()) written = filesystem_.Rename(temporary, path);
  if (!written.ok()) LogWarning("what a toolchain is was not kept", {{"error", Message(written)}});
}

}  // namespace kiln
