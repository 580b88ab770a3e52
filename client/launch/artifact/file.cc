#include "client/launch/artifact/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "storage/base/unique_fd.h"

namespace kiln::launch {
namespace {

Status ErrnoStatus(int error, const std::string& path) {
  const Code code = error == ENOENT                     ? Code::kNotFound
                    : error == EACCES || error == ELOOP ? Code::kPermissionDenied
                                                        : Code::kInternal;
  return Status(code, fmt::format("{}: {}", path, std::strerror(error)));
}

struct OpenFile {
  UniqueFd fd;
  struct stat info {};
};

StatusOr<OpenFile> Open(const std::string& path, int more_flags) {
  OpenFile file;
  // O_NONBLOCK: a pipe in the file's place must not hang the job.
  file.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | more_flags));
  if (!file.fd || ::fstat(file.fd.get(), &file.info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(file.info.st_mode)) return InvalidArgument("{} is not a regular file", path);
  return file;
}

StatusOr<std::string> ReadAll(const OpenFile& file, const std::string& path, uint64_t bytes_max) {
  const auto size = static_cast<uint64_t>(file.info.st_size);
  if (size > bytes_max) {
    return InvalidArgument("{} has {} bytes, at most {} are read", path, size, bytes_max);
  }
  std::string content(size, '\0');
  size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.fd.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) break;  // truncated meanwhile; the digest is checked later
    filled += static_cast<size_t>(got);
  }
  content.resize(filled);
  return content;
}

}  // namespace

StatusOr<std::string> ReadFile(const std::string& path, uint64_t bytes_max) {
  LAUNCH_ASSIGN_OR_RETURN(const OpenFile file, Open(path, 0));
  return ReadAll(file, path, bytes_max);
}

StatusOr<std::string> ReadTrustedFile(const std::string& path, uint64_t bytes_max,
                                      std::optional<uid_t> server_uid) {
  LAUNCH_ASSIGN_OR_RETURN(const OpenFile file, Open(path, O_NOFOLLOW));
  const uid_t owner = file.info.st_uid;
  const bool is_ours = owner == 0 || owner == ::geteuid() || (server_uid && owner == *server_uid);
  if (!is_ours || (file.info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PermissionDenied("{} (uid {}, mode {:o}) could have been written by somebody else", path,
                            owner, file.info.st_mode & 07777);
  }
  return ReadAll(file, path, bytes_max);
}

}  // namespace kiln::launch
