#include "client/rpc/hot_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "client/rpc/dial.h"

namespace kiln {

absl::StatusOr<HotArtifact> HotReader::Find(const Digest& key) const {
  KILN_ASSIGN_OR_RETURN(const Directory directory, Open());
  absl::StatusOr<MappedArtifact> loaded = Load(directory->get(), key);
  if (absl::IsNotFound(loaded.status()) && !IsStillThere(directory)) {
    {
      const MutexLock lock(mutex_);
      if (directory_ == directory) directory_ = nullptr;
    }
    KILN_ASSIGN_OR_RETURN(const Directory newer, Open());
    loaded = Load(newer->get(), key);
  }
  if (!loaded.ok()) return Annotate(loaded.status(), path_);
  const auto mapping = std::make_shared<const MappedArtifact>(*std::move(loaded));
  const ArtifactLayout& layout = mapping->layout();
  if (layout.stages.empty()) return DataLoss("the published artifact {} has no binary", key.Hex());
  HotArtifact artifact;
  artifact.document_ = layout.document;
  artifact.stage_ = layout.stages.back().name;
  artifact.binary_ = layout.stages.back().bytes;
  artifact.mapping_ = mapping;
  return artifact;
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

absl::StatusOr<MappedArtifact> HotReader::Load(int directory, const Digest& key) const {
  const std::string name = key.Hex();
  std::string path;
  path.reserve(name.size() + 3);
  path.append(name, 0, 2).append("/").append(name);
  return MappedArtifact::OpenAt(
      directory, path, key,
      [this](const struct stat& file, const std::string& of) { return CheckOwner(file, of); });
}

absl::Status HotReader::CheckOwner(const struct stat& info, const std::string& name) const {
  if (MayServe(info.st_uid, own_uid_, server_uid_) && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    return absl::OkStatus();
  }
  return PermissionDenied("{} (uid {}, mode {:o}) could have been written by somebody else", name,
                          info.st_uid, info.st_mode & 07777);
}

}  // namespace kiln
