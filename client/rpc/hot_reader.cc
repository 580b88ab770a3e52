#include "client/rpc/hot_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "client/rpc/dial.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr auto kAbsenceTime = std::chrono::milliseconds(10);

}  // namespace

template <typename Read>
auto HotReader::In(const Read& read) const -> decltype(read(0)) {
  KILN_ASSIGN_OR_RETURN(const Directory directory, Open());
  auto found = read(directory->get());
  if (!absl::IsNotFound(found.status()) || IsStillThere(directory)) return found;
  {
    const MutexLock lock(mutex_);
    if (directory_ == directory) directory_ = nullptr;
  }
  KILN_ASSIGN_OR_RETURN(const Directory newer, Open());
  return read(newer->get());
}

absl::StatusOr<std::shared_ptr<const PublishedToolchains>> HotReader::Toolchains() const {
  const auto now = std::chrono::steady_clock::now();
  {
    const MutexLock lock(mutex_);
    if (now < absent_until_) return NotFound("{} has no toolchains", path_);
  }
  auto loaded = In([this](int directory) { return LoadToolchains(directory); });
  if (absl::IsNotFound(loaded.status())) {
    const MutexLock lock(mutex_);
    absent_until_ = now + kAbsenceTime;
  }
  return loaded;
}

absl::StatusOr<std::shared_ptr<const PublishedToolchains>> HotReader::LoadToolchains(
    int directory) const {
  struct stat info;
  if (::fstatat(directory, kPublishedToolchains, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrnoStatus(errno, kPublishedToolchains);
  }
  {
    const MutexLock lock(mutex_);
    if (toolchains_ != nullptr && toolchains_version_ == VersionOf(info)) return toolchains_;
  }
  // O_NONBLOCK: opening a pipe must not hang.
  const UniqueFd file(
      ::openat(directory, kPublishedToolchains, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file || ::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, kPublishedToolchains);
  KILN_RETURN_IF_ERROR(CheckOwner(info, kPublishedToolchains));
  const auto size = static_cast<size_t>(info.st_size);
  if (!S_ISREG(info.st_mode) || size > limits::kPublishedToolchainsBytesMax) {
    return FailedPrecondition("{} is no file of toolchains", kPublishedToolchains);
  }
  std::string bytes(size, '\0');
  if (::pread(file.get(), bytes.data(), size, 0) != info.st_size) {
    return DataLoss("{} cannot be read", kPublishedToolchains);
  }
  KILN_ASSIGN_OR_RETURN(auto toolchains, PublishedToolchains::Parse(bytes));
  const MutexLock lock(mutex_);
  toolchains_version_ = VersionOf(info);
  toolchains_ = toolchains;
  return toolchains;
}

// A rename changes the time, so that an inode that is used again is told from the one before.
HotReader::FileVersion HotReader::VersionOf(const struct stat& info) {
  return {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino), info.st_ctim.tv_sec,
          info.st_ctim.tv_nsec, info.st_size};
}

absl::StatusOr<HotArtifact> HotReader::Find(const Digest& key) const {
  absl::StatusOr<MappedArtifact> loaded =
      In([&](int directory) { return Load(directory, key, ""); });
  if (!loaded.ok()) return Annotate(loaded.status(), path_);
  const auto mapping = std::make_shared<const MappedArtifact>(*std::move(loaded));
  const ArtifactLayout& layout = mapping->layout();
  if (layout.stages.empty()) return DataLoss("the published artifact {} has no binary", key.Hex());
  HotArtifact artifact;
  artifact.document_ = layout.document;
  artifact.description_ = layout.description;
  artifact.stage_ = layout.stages.back().name;
  artifact.binary_ = layout.stages.back().bytes;
  artifact.digest_ = layout.stages.back().digest;
  artifact.mapping_ = mapping;
  return artifact;
}

absl::StatusOr<std::shared_ptr<const MappedArtifact>> HotReader::FindEarlierStages(
    const Digest& key, const Digest& binary) const {
  absl::StatusOr<MappedArtifact> loaded =
      In([&](int directory) { return Load(directory, key, kEarlierStages); });
  if (!loaded.ok()) return Annotate(loaded.status(), path_);
  // The files of one key are replaced one after the other.
  if (loaded->layout().document != binary.Bytes()) {
    return NotFound("the earlier stages of {} are another binary's", key.Hex());
  }
  return std::make_shared<const MappedArtifact>(*std::move(loaded));
}

absl::StatusOr<HotReader::Directory> HotReader::Open() const {
  const MutexLock lock(mutex_);
  if (directory_ != nullptr) return directory_;
  UniqueFd opened(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened) {
    const int error = errno;
    if (error == ENOENT) return NotFound("no hot directory at {}", path_);
    if (error != ENOTDIR && error != ELOOP) return ErrnoStatus(error, path_);
    return PermissionDenied("{} is not a directory: somebody else may have put it there", path_);
  }
  struct stat info;
  if (::fstat(opened.get(), &info) != 0) return ErrnoStatus(errno, path_);
  KILN_RETURN_IF_ERROR(CheckOwner(info, path_));
  directory_ = std::make_shared<const UniqueFd>(std::move(opened));
  return directory_;
}

bool HotReader::IsStillThere(const Directory& directory) const {
  struct stat ours;
  struct stat present;
  return ::fstat(directory->get(), &ours) == 0 && ::lstat(path_.c_str(), &present) == 0 &&
         ours.st_dev == present.st_dev && ours.st_ino == present.st_ino;
}

absl::StatusOr<MappedArtifact> HotReader::Load(int directory, const Digest& key,
                                               std::string_view suffix) const {
  // Made in place: a string more counts beside a system call.
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr size_t kShardBytes = 3;
  std::string path(kShardBytes + 2 * Digest::kSizeBytes, '/');
  char* at = path.data() + kShardBytes;
  for (const char byte : key.Bytes()) {
    *at++ = kDigits[static_cast<uint8_t>(byte) >> 4];
    *at++ = kDigits[byte & 15];
  }
  path.replace(0, 2, path, kShardBytes, 2);
  path += suffix;
  return MappedArtifact::Open(path, key, directory);
}

absl::Status HotReader::CheckOwner(const struct stat& info, const std::string& name) const {
  if (MayServe(info.st_uid, own_uid_, server_uid_) && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    return absl::OkStatus();
  }
  return PermissionDenied("{} (uid {}, mode {:o}) could have been written by somebody else", name,
                          info.st_uid, info.st_mode & 07777);
}

}  // namespace kiln
