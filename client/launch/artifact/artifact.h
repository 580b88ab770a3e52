// A compiled kernel in memory: its checked binary and metadata.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launch/artifact/metadata.h"
#include "client/launch/artifact/sha256.h"
#include "client/launch/artifact/status.h"

namespace kiln::launch {

// Identifies a kernel in this process by its key and its binary: a compiler that is not
// deterministic makes two binaries for one key. Without a key, the metadata counts too: one binary
// may be launched in several ways. The rest of the JSON (who compiled it, when) does not count.
struct ArtifactId {
  Sha256Digest key{};  // zeroes: not known
  Sha256Digest binary{};
  Sha256Digest metadata{};  // digest of the JSON's metadata; zeroes: there is a key
  auto operator<=>(const ArtifactId&) const = default;
};

// GPU drivers take an image without its length and trust its headers: they read past the end of a
// truncated image. INVALID_ARGUMENT: not a 64-bit ELF file, or its headers point outside; for the
// backend "spirv", not a SPIR-V module.
Status CheckImage(std::string_view backend, std::string_view image);

// Immutable; the SHA-256 of the binary was checked when it was read. Thread-safe.
class Artifact {
 public:
  // Reads an artifact file of a hot directory (storage/format.md). Its content runs in this
  // process, so the file must belong to root, to this user or to `server_uid`, and others must not
  // be able to write to it. Refuses a file of another key than `expected_key`. NOT_FOUND,
  // PERMISSION_DENIED, DATA_LOSS, FAILED_PRECONDITION (written by a newer Kiln).
  static StatusOr<std::shared_ptr<const Artifact>> FromHotFile(
      const std::string& path, const std::optional<Sha256Digest>& expected_key,
      std::optional<uid_t> server_uid);

  // The JSON that `kiln compile -o` writes, and the binary beside it that it names.
  static StatusOr<std::shared_ptr<const Artifact>> FromJsonFile(const std::string& path);

  // A binary and its JSON: a hot document, or the JSON of `kiln compile -o`. `digest` and `key`
  // override the JSON. INVALID_ARGUMENT: neither has the digest.
  static StatusOr<std::shared_ptr<const Artifact>> FromBytes(
      std::string_view json, std::string_view binary, const std::optional<Sha256Digest>& digest,
      const std::optional<Sha256Digest>& key);

  // A serialized kiln.v1.CompileResponse with the content of a cubin, HSACO or SPIR-V module.
  // INVALID_ARGUMENT.
  static StatusOr<std::shared_ptr<const Artifact>> FromResponse(std::string_view response);

  const ArtifactId& id() const { return id_; }
  const KernelMetadata& metadata() const { return metadata_; }
  // At a multiple of 64.
  std::string_view binary() const { return {lines_.data()->bytes, binary_bytes_}; }
  // "kernel softmax (key 0123456789ab)". Every error begins with it.
  const std::string& label() const { return label_; }

 private:
  Artifact(ArtifactId id, KernelMetadata metadata, std::string_view binary);

  const ArtifactId id_;
  const KernelMetadata metadata_;
  // At a multiple of 64: a driver may use it in place.
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> lines_;
  const size_t binary_bytes_;
  const std::string label_;
};

}  // namespace kiln::launch
