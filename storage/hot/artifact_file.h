// The file that a hot directory holds per artifact, and that clients read with one open and one
// mmap: no RPC, no parser. storage/format.md has the layout byte by byte.
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

// One stage's output inside a file.
struct ArtifactFileStage {
  std::string_view stage;
  Digest digest;
  std::string_view bytes;
};

// What a file says. The views point into the decoded bytes.
struct ArtifactFileView {
  Digest key;
  std::string_view document;
  std::vector<ArtifactFileStage> stages;  // in the order of compilation

  // Null where the file does not carry the stage.
  const ArtifactFileStage* Find(std::string_view stage) const;
};

// What goes into a file.
struct NamedBlob {
  std::string stage;
  Blob blob;
};

// INVALID_ARGUMENT where there are more stages, or longer names, than the format holds.
absl::StatusOr<std::string> EncodeArtifactFile(const Digest& key, std::string_view document,
                                               std::span<const NamedBlob> stages);

// Checks magic, version, every offset, and the checksum over the whole file. `bytes` may come from
// anywhere and be anything. DATA_LOSS: damaged or not such a file. FAILED_PRECONDITION: written by
// a newer Kiln.
absl::StatusOr<ArtifactFileView> DecodeArtifactFile(std::string_view bytes);

// An artifact file in memory for as long as this object lives: mapped where it is large, read where
// that is faster. Whoever replaces or removes the file does not disturb it. Movable; the const
// members are thread-safe.
class MappedArtifact {
 public:
  // NOT_FOUND: no such file. DATA_LOSS: damaged, or of another key. FAILED_PRECONDITION: written by
  // a newer Kiln, or not a regular file. Never follows a symbolic link in the last component.
  static absl::StatusOr<MappedArtifact> Open(const std::string& path, const Digest& expected_key);
  // What the opened file must be, besides a regular file, before anything is read from it: given
  // what fstat(2) says and the path. Its error is returned. None: anything will do.
  using FileCheck = std::function<absl::Status(const struct stat&, const std::string&)>;
  // The same for a path relative to an open directory, as openat(2) takes it.
  static absl::StatusOr<MappedArtifact> OpenAt(int directory, const std::string& path,
                                               const Digest& expected_key,
                                               const FileCheck& check = nullptr);

  MappedArtifact(MappedArtifact&& other) noexcept;
  MappedArtifact& operator=(MappedArtifact&& other) noexcept;
  ~MappedArtifact();

  const ArtifactFileView& view() const { return view_; }

  // A copy of a stage's bytes, checked against its SHA-256 (Open checks the faster checksum only).
  // NOT_FOUND: the file does not carry the stage. DATA_LOSS: the bytes are not what their digest
  // says.
  absl::StatusOr<Blob> VerifiedBlob(std::string_view stage) const;

 private:
  MappedArtifact(void* address, size_t size_bytes, void* allocated)
      : address_(address), size_bytes_(size_bytes), allocated_(allocated) {}
  static absl::StatusOr<MappedArtifact> Read(int fd, size_t size, const std::string& path);
  static absl::StatusOr<MappedArtifact> Map(int fd, size_t size, const std::string& path);
  void Release();

  void* address_ = nullptr;
  size_t size_bytes_ = 0;
  void* allocated_ = nullptr;  // holds the bytes; null where they are mapped
  ArtifactFileView view_;
};

}  // namespace kiln
