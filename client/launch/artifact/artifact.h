// A compiled kernel in memory: binary and metadata, checked.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/sha256.h"
#include "client/launch/artifact/status.h"

namespace kiln::launch {

// What names a kernel in this process: its key, and its binary, since a compiler that is not
// deterministic may give two for one key. Without a key the metadata, too, as one binary may be
// launched in several ways; not the rest of its JSON, which tells who compiled it and when.
struct ArtifactId {
  Sha256Digest key{};  // zeroes: not known
  Sha256Digest binary{};
  Sha256Digest metadata{};  // of its CanonicalText; zeroes: the key stands for it
  auto operator<=>(const ArtifactId&) const = default;
};

// Bytes at a multiple of 64, as a driver may use them in place.
class ImageBytes {
 public:
  explicit ImageBytes(std::string_view bytes);
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(char* bytes) const;
  };
  std::unique_ptr<char, Free> bytes_;
  size_t size_;
};

// Immutable; the SHA-256 of the binary was checked when it was read. Thread-safe.
class Artifact {
 public:
  // An artifact file out of a hot directory (storage/format.md). What stands in it runs in this
  // process, so it must belong to root, to this user or to `server_uid`, and others must not be
  // able to write to it. `expected_key`: refused where the file holds another. NOT_FOUND,
  // PERMISSION_DENIED, DATA_LOSS, FAILED_PRECONDITION (of a newer Kiln).
  static StatusOr<std::shared_ptr<const Artifact>> FromHotFile(
      const std::string& path, const std::optional<Sha256Digest>& expected_key,
      std::optional<uid_t> server_uid);

  // The JSON that `kiln compile -o` writes, and the binary beside it that it names.
  static StatusOr<std::shared_ptr<const Artifact>> FromJsonFile(const std::string& path);

  // A binary and its JSON: a hot document, or what `kiln compile -o` writes. `digest` and `key` win
  // over what the JSON says. INVALID_ARGUMENT where neither says the digest.
  static StatusOr<std::shared_ptr<const Artifact>> FromBytes(
      std::string_view json, std::string_view binary, const std::optional<Sha256Digest>& digest,
      const std::optional<Sha256Digest>& key);

  const ArtifactId& id() const { return id_; }
  const KernelMetadata& metadata() const { return metadata_; }
  // Lies at a multiple of 64.
  std::string_view binary() const { return binary_.view(); }
  // "kernel softmax (key 0123456789ab)": what every error begins with.
  const std::string& label() const { return label_; }

 private:
  Artifact(ArtifactId id, KernelMetadata metadata, std::string_view binary);

  const ArtifactId id_;
  const KernelMetadata metadata_;
  const ImageBytes binary_;
  const std::string label_;
};

}  // namespace kiln::launch
