#include "daemon/toolchain/toolchain_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "storage/base/limits.h"
#include "storage/base/log.h"

namespace kiln {
namespace {

constexpr std::string_view kFingerprintEnd = ".fingerprint";
constexpr std::string_view kDescriptionEnd = ".description.json";
constexpr std::string_view kPartialEnd = ".tmp";

std::string FingerprintName(const Digest& listing) {
  return fmt::format("{}{}", listing.Hex(), kFingerprintEnd);
}

std::string DescriptionName(const Digest& fingerprint, const Digest& script) {
  return fmt::format("{}-{}{}", fingerprint.Hex(), script.ShortHex(), kDescriptionEnd);
}

// Whether a file is one that a cache makes.
bool IsOurs(std::string_view name) {
  return name.ends_with(kFingerprintEnd) || name.ends_with(kDescriptionEnd) ||
         name.ends_with(kPartialEnd);
}

absl::Status CheckPrivate(const std::string& directory) {
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0) return ErrnoStatus(errno, "look at " + directory);
  if (info.st_uid != ::geteuid()) {
    return PermissionDenied("{} belongs to user {}, not to this one", directory, info.st_uid);
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PermissionDenied("others may write to {}; take that right away (chmod go-w)", directory);
  }
  return absl::OkStatus();
}

}  // namespace

ToolchainCache::ToolchainCache(std::string directory, Filesystem& filesystem)
    : filesystem_(filesystem) {
  if (directory.empty()) return;
  absl::Status status = filesystem_.MakeDirectory(directory, 0700);
  if (status.ok()) status = CheckPrivate(directory);
  if (status.ok()) {
    directory_ = std::move(directory);
  } else {
    LogWarning("toolchains are examined at every start", {{"error", Message(status)}});
  }
}

std::optional<Digest> ToolchainCache::FindFingerprint(const Digest& listing) {
  const std::optional<std::string> text = Read(FingerprintName(listing));
  if (!text) return std::nullopt;
  const absl::StatusOr<Digest> fingerprint = Digest::FromHex(*text);
  return fingerprint.ok() ? std::optional<Digest>(*fingerprint) : std::nullopt;
}

void ToolchainCache::StoreFingerprint(const Digest& listing, const Digest& fingerprint) {
  Write(FingerprintName(listing), fingerprint.Hex());
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
  for (const DirectoryEntry& entry : *entries) {
    const bool is_file = entry.kind == DirectoryEntry::Kind::kFile;
    if (is_file && IsOurs(entry.name) && !used_.contains(entry.name)) {
      filesystem_.Remove(directory_ + "/" + entry.name).IgnoreError();
    }
  }
}

std::optional<std::string> ToolchainCache::Read(const std::string& name) {
  if (directory_.empty()) return std::nullopt;
  used_.insert(name);
  auto content = filesystem_.Read(directory_ + "/" + name, limits::kRecordBytesMax);
  return content.ok() ? std::optional<std::string>(*std::move(content)) : std::nullopt;
}

void ToolchainCache::Write(const std::string& name, const std::string& content) {
  if (directory_.empty()) return;
  const std::string path = directory_ + "/" + name;
  const std::string temporary = fmt::format("{}.{}{}", path, ::getpid(), kPartialEnd);
  absl::Status written = filesystem_.WriteNew(temporary, content, 0600);
  if (written.ok()) written = filesystem_.Rename(temporary, path);
  if (!written.ok()) LogWarning("what a toolchain is was not kept", {{"error", Message(written)}});
}

}  // namespace kiln
