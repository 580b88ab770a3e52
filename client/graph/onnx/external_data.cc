#include "client/graph/onnx/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/status/status.h"

namespace kiln::graph {
namespace {

namespace fs = std::filesystem;

template <typename... Arguments>
absl::Status WrongFile(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

class OpenFile {
 public:
  // O_NONBLOCK: a pipe in the file's place must not hang the caller.
  explicit OpenFile(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  absl::StatusOr<uint64_t> Size() const {
    struct stat info {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) {
      return WrongFile("{}: {}", path_, std::strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) return WrongFile("{} is not a regular file", path_);
    return static_cast<uint64_t>(info.st_size);
  }
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t bytes) const {
    std::string content(bytes, '\0');
    uint64_t filled = 0;
    while (filled < bytes) {
      const ssize_t got = ::pread(descriptor_, content.data() + filled, bytes - filled,
                                  static_cast<off_t>(offset + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return WrongFile("{}: {}", path_, std::strerror(errno));
      if (got == 0) return WrongFile("{} was truncated while it was read", path_);
      filled += static_cast<uint64_t>(got);
    }
    return content;
  }

 private:
  const std::string path_;
  const int descriptor_;
};

bool IsBelow(const fs::path& path, const fs::path& folder) {
  const fs::path inside = path.lexically_relative(folder);
  return !inside.empty() && *inside.begin() != "..";
}

}  // namespace

DataFolders DataFoldersOf(const std::string& model_path) {
  const fs::path path(model_path);
  DataFolders folders{path.has_parent_path() ? path.parent_path().string() : "."};
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (!error) folders.file = file.parent_path().string();
  return folders;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t bytes_max) {
  const OpenFile file(path);
  const auto size = file.Size();
  if (!size.ok()) return size.status();
  if (*size > bytes_max) {
    return WrongFile("{} has {} bytes, at most {} are read", path, *size, bytes_max);
  }
  return file.Read(0, *size);
}

absl::StatusOr<std::string> ReadExternalData(const DataFolders& folders, std::string_view location,
                                             uint64_t offset, uint64_t bytes) {
  std::error_code error;
  const fs::path root = fs::canonical(folders.model.empty() ? "." : folders.model, error);
  const fs::path name(location);
  if (error || location.empty() || name.is_absolute()) {
    return WrongFile("external data \"{:.200}\" is no path in the model's folder", location);
  }
  const fs::path path = fs::canonical(root / name, error);
  if (error) return WrongFile("external data \"{:.200}\": {}", location, error.message());
  if (!IsBelow(path, root) && (folders.file.empty() || !IsBelow(path, folders.file))) {
    return WrongFile("external data \"{:.200}\" lies outside the model's folder", location);
  }
  const OpenFile file(path.string());
  const auto size = file.Size();
  if (!size.ok()) return size.status();
  if (offset > *size || bytes > *size - offset) {
    return WrongFile("external data \"{:.200}\" is truncated: bytes {} to {} of {}", location,
                     offset, offset + bytes, *size);
  }
  return file.Read(offset, bytes);
}

}  // namespace kiln::graph
