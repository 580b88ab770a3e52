// The file of an artifact in the hot directory. Clients read it with one open and one mmap, without
// RPC or parser (layout: storage/format.md).
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "storage/base/blob.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/hot/artifact_layout.h"

namespace kiln {

// One stage to write into a file.
struct NamedBlob {
  std::string stage;
  Blob blob;
};

// INVALID_ARGUMENT where there are more stages, or longer names, than the format holds.
// `description`: that of the record, or "".
absl::StatusOr<std::string> EncodeArtifactFile(const Digest& key, std::string_view document,
                                               std::string_view description,
                                               std::span<const NamedBlob> stages);

// An artifact file in memory: a large file is mapped, a small one is read, which is faster.
// Replacing or removing the file does not change this object. Movable. The const members are
// thread-safe.
class MappedArtifact {
 public:
  // NOT_FOUND: no such file. DATA_LOSS: damaged, or of another key. FAILED_PRECONDITION: a newer
  // Kiln wrote it, or it is no regular file. Follows no symbolic link in the last component.
  // `directory`: as of openat(2).
  static absl::StatusOr<MappedArtifact> Open(const std::string& path, const Digest& expected_key,
                                             int directory = AT_FDCWD);

  MappedArtifact(MappedArtifact&& other) noexcept;
  MappedArtifact& operator=(MappedArtifact&& other) noexcept;
  ~MappedArtifact();

  // Points into this object's memory. The file's checksum matches; the SHA-256 of each stage is not
  // checked.
  const ArtifactLayout& layout() const { return layout_; }

 private:
  MappedArtifact(void* address, size_t size_bytes, void* allocated)
      : address_(address), size_bytes_(size_bytes), allocated_(allocated) {}
  static absl::StatusOr<MappedArtifact> Load(int fd, const std::string& path);
  // The first `size` bytes of the file; fewer where it is shorter or cannot be read.
  static absl::StatusOr<MappedArtifact> Read(int fd, size_t size, const std::string& path);
  static absl::StatusOr<MappedArtifact> Map(int fd, size_t size, const std::string& path);
  void Release();

  void* address_ = nullptr;
  size_t size_bytes_ = 0;
  void* allocated_ = nullptr;  // holds the bytes; null: they are mapped
  ArtifactLayout layout_;
};

}  // namespace kiln
