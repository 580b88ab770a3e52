// The file of an artifact in the hot directory. Clients read it with one open and one mmap, without
// RPC or parser (layout: storage/format.md).
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/blob.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// The output of one stage inside a file.
struct ArtifactFileStage {
  std::string_view stage;
  Digest digest;
  std::string_view bytes;
};

// A decoded file. The views point into its bytes.
struct ArtifactFileView {
  Digest key;
  std::string_view document;
  std::vector<ArtifactFileStage> stages;  // in compile order

  // Null where the file does not hold the stage.
  const ArtifactFileStage* Find(std::string_view stage) const;
};

// One stage to write into a file.
struct NamedBlob {
  std::string stage;
  Blob blob;
};

// INVALID_ARGUMENT where there are more stages, or longer names, than the format holds.
absl::StatusOr<std::string> EncodeArtifactFile(const Digest& key, std::string_view document,
                                               std::span<const NamedBlob> stages);

// Checks magic, version, all offsets, and the checksum. `bytes` may be anything. DATA_LOSS:
// damaged, or no artifact file. FAILED_PRECONDITION: a newer Kiln wrote the file.
absl::StatusOr<ArtifactFileView> DecodeArtifactFile(std::string_view bytes);

// An artifact file in memory: a large file is mapped, a small one is read, which is faster.
// Replacing or removing the file does not change this object. Movable. The const members are
// thread-safe.
class MappedArtifact {
 public:
  // NOT_FOUND: no such file. DATA_LOSS: damaged, or of another key. FAILED_PRECONDITION: a newer
  // Kiln wrote it, or it is no regular file. Follows no symbolic link in the last component.
  static absl::StatusOr<MappedArtifact> Open(const std::string& path, const Digest& expected_key);
  // Checks fstat(2)'s result and the path before anything is read from the file. Its error is
  // returned. None: every regular file is fine.
  using FileCheck = std::function<absl::Status(const struct stat&, const std::string&)>;
  // The same for a path relative to an open directory (openat(2)).
  static absl::StatusOr<MappedArtifact> OpenAt(int directory, const std::string& path,
                                               const Digest& expected_key,
                                               const FileCheck& check = nullptr);

  MappedArtifact(MappedArtifact&& other) noexcept;
  MappedArtifact& operator=(MappedArtifact&& other) noexcept;
  ~MappedArtifact();

  const ArtifactFileView& view() const { return view_; }

  // A copy of a stage's bytes, checked against the SHA-256 (Open checks the faster checksum only).
  // NOT_FOUND: the file does not hold the stage. DATA_LOSS: the bytes do not match the digest.
  absl::StatusOr<Blob> VerifiedBlob(std::string_view stage) const;

 private:
  MappedArtifact(void* address, size_t size_bytes, void* allocated)
      : address_(address), size_bytes_(size_bytes), allocated_(allocated) {}
  static absl::StatusOr<MappedArtifact> Read(int fd, size_t size, const std::string& path);
  static absl::StatusOr<MappedArtifact> Map(int fd, size_t size, const std::string& path);
  void Release();

  void* address_ = nullptr;
  size_t size_bytes_ = 0;
  void* allocated_ = nullptr;  // holds the bytes; null: they are mapped
  ArtifactFileView view_;
};

}  // namespace kiln
