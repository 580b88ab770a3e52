#include "client/rpc/hot_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "client/rpc/dial.h"
#include "storage/base/artifact_file.h"

namespace kiln {

absl::StatusOr<HotArtifact> HotDirectory::Find(const Digest& key) const {
  if (!is_trusted_.load(std::memory_order_acquire)) KILN_RETURN_IF_ERROR(CheckOwner());
  const std::string name = key.Hex();
  KILN_ASSIGN_OR_RETURN(MappedArtifact opened,
                        MappedArtifact::Open(path_ + "/" + name.substr(0, 2) + "/" + name, key));
  const auto mapping = std::make_shared<const MappedArtifact>(std::move(opened));
  const ArtifactFileView& view = mapping->view();
  if (view.stages.empty()) return DataLoss("the published artifact {} has no binary", name);
  HotArtifact artifact;
  artifact.document_ = view.document;
  artifact.stage_ = view.stages.back().stage;
  artifact.binary_ = view.stages.back().bytes;
  artifact.mapping_ = mapping;
  return artifact;
}

absl::Status HotDirectory::CheckOwner() const {
  struct stat status;
  if (::lstat(path_.c_str(), &status) != 0) {
    return NotFound("no hot directory at {}: {}", path_, Message(ErrnoStatus(errno, "lstat")));
  }
  const bool is_ours = MayServe(status.st_uid, ::geteuid(), server_uid_);
  if (!S_ISDIR(status.st_mode) || !is_ours || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PermissionDenied(
        "the hot directory {} (uid {}, mode {:o}) could have been written by somebody else", path_,
        status.st_uid, status.st_mode & 07777);
  }
  is_trusted_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace kiln
