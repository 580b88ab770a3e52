#include "client/cli/output/unfinished_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace kiln::cli {

std::string FollowLinks(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

absl::StatusOr<std::unique_ptr<UnfinishedFile>> UnfinishedFile::Create(std::string path,
                                                                       mode_t mode) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::symlink_status(path, error);
  if (std::filesystem::is_other(there)) {
    return InvalidArgument("{} is there, and is a device, a pipe or a socket", path);
  }
  std::unique_ptr<UnfinishedFile> made(new UnfinishedFile(std::move(path)));
  KILN_RETURN_IF_ERROR(made->Open(mode));
  return made;
}

UnfinishedFile::UnfinishedFile(std::string path)
    : path_(std::move(path)), other_name_(fmt::format("{}.{}.unfinished", path_, ::getpid())) {}

UnfinishedFile::~UnfinishedFile() {
  if (has_other_name_) ::unlink(other_name_.c_str());
}

absl::Status UnfinishedFile::Open(mode_t mode) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  file_.Reset(
      ::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode));
  // Older file systems and sandboxes know the flag as little as the file.
  if (!file_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    (void)::unlink(other_name_.c_str());
    file_.Reset(::open(other_name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    has_other_name_ = bool{file_};
  }
  return file_ ? absl::OkStatus() : ErrnoStatus(errno, path_);
}

absl::Status UnfinishedFile::Write(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status UnfinishedFile::Sync() {
  return ::fsync(file_.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path_);
}

absl::Status UnfinishedFile::Finish() {
  const auto link = [this](const std::string& name) {
    return ::linkat(AT_FDCWD, unfinished_path().c_str(), AT_FDCWD, name.c_str(),
                    AT_SYMLINK_FOLLOW) == 0;
  };
  if (!has_other_name_) {
    if (link(path_)) return absl::OkStatus();
    // A link replaces nothing, a rename does.
    if (errno == EEXIST) {
      (void)::unlink(other_name_.c_str());
      has_other_name_ = link(other_name_);
    }
  }
  if (!has_other_name_ || std::rename(other_name_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, path_);
  }
  has_other_name_ = false;
  return absl::OkStatus();
}

}  // namespace kiln::cli
