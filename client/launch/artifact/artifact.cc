#include "client/launch/artifact/artifact.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "storage/base/elf_file.h"
#include "storage/base/limits.h"
#include "storage/base/service_uid.h"
#include "storage/base/unique_fd.h"
#include "storage/hot/artifact_layout.h"

namespace kiln::launch {
namespace {

Status ErrnoStatus(int error, const std::string& path) {
  const Code code = error == ENOENT                     ? Code::kNotFound
                    : error == EACCES || error == ELOOP ? Code::kPermissionDenied
                                                        : Code::kInternal;
  return Status(code, fmt::format("{}: {}", path, std::strerror(error)));
}

// A regular file of at most `bytes_max` bytes that passes `check`. NOT_FOUND, PERMISSION_DENIED,
// INVALID_ARGUMENT (too large, or not a regular file), INTERNAL.
StatusOr<std::string> ReadFile(const std::string& path, uint64_t bytes_max, int more_flags = 0,
                               const std::function<Status(const struct stat&)>& check = nullptr) {
  // O_NONBLOCK: a pipe in the file's place must not hang the job.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | more_flags));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument("{} is not a regular file", path);
  if (check != nullptr) LAUNCH_RETURN_IF_ERROR(check(info));
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > bytes_max) {
    return InvalidArgument("{} has {} bytes, at most {} are read", path, size, bytes_max);
  }
  std::string content(size, '\0');
  size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) break;  // truncated meanwhile; the digest is checked later
    filled += static_cast<size_t>(got);
  }
  content.resize(filled);
  return content;
}

// As ReadFile. Only root, this user or `server_uid` can have written the file: it belongs to one of
// them, is not a symbolic link, and neither group nor others may write to it.
StatusOr<std::string> ReadTrustedFile(const std::string& path, uint64_t bytes_max,
                                      std::optional<uid_t> server_uid) {
  return ReadFile(path, bytes_max, O_NOFOLLOW, [&](const struct stat& info) {
    const uid_t owner = info.st_uid;
    const bool is_ours =
        owner == 0 || owner == ::geteuid() || owner == server_uid || owner == ServiceUid();
    if (is_ours && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return Status();
    return PermissionDenied("{} (uid {}, mode {:o}) could have been written by somebody else", path,
                            owner, info.st_mode & 07777);
  });
}

std::string LabelOf(const ArtifactId& id, const KernelMetadata& metadata) {
  const bool has_key = id.key != Sha256Digest{};
  return fmt::format("kernel {} ({} {})", metadata.name, has_key ? "key" : "binary",
                     ToHex(has_key ? id.key : id.binary).substr(0, 12));
}

StatusOr<Sha256Digest> DigestNamed(std::string_view what, std::string_view hex) {
  Sha256Digest digest;
  if (FromHex(hex, digest)) return digest;
  return InvalidArgument("the JSON's {} is not 64 hex digits", what);
}

Status CheckStage(std::string_view stage) {
  if (stage == "cubin" || stage == "hsaco" || stage == "spv" || stage.empty()) return Status();
  return InvalidArgument(
      "the artifact ends with {}, which no driver launches: have it compiled to "
      "cubin, hsaco or spv",
      stage);
}

// A module is whole words behind a header of five, of which the first says what it is.
Status CheckSpirvImage(std::string_view image) {
  constexpr uint32_t kMagic = 0x07230203;
  uint32_t magic = 0;
  if (image.size() >= 5 * sizeof magic) std::memcpy(&magic, image.data(), sizeof magic);
  if (magic == kMagic && image.size() % sizeof magic == 0) return Status();
  return InvalidArgument("the binary's {} bytes are not a SPIR-V module", image.size());
}

// Names of files in a JSON never lead out of its folder.
StatusOr<std::string> Beside(const std::string& path, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name == "..") {
    return InvalidArgument("its stages name no file beside it, as `kiln compile -o` has it");
  }
  return path.substr(0, path.rfind('/') + 1) + name;
}

}  // namespace

Status CheckImage(std::string_view backend, std::string_view image) {
  if (backend == "spirv") return CheckSpirvImage(image);
  if (!IsElf64(image)) {
    return InvalidArgument(
        "the binary's {} bytes are not a 64-bit ELF file, as cubins and HSACOs are", image.size());
  }
  if (IsWholeElf64(image)) return Status();
  return InvalidArgument("the binary's headers point outside its {} bytes: it is cut off",
                         image.size());
}

Artifact::Artifact(ArtifactId id, KernelMetadata metadata, std::string_view binary)
    : id_(id),
      metadata_(std::move(metadata)),
      lines_(binary.size() / sizeof(Line) + 1),
      binary_bytes_(binary.size()),
      label_(LabelOf(id_, metadata_)) {
  std::memcpy(lines_.data(), binary.data(), binary.size());
}

StatusOr<std::shared_ptr<const Artifact>> Artifact::FromBytes(
    std::string_view json, std::string_view binary, const std::optional<Sha256Digest>& digest,
    const std::optional<Sha256Digest>& key) {
  LAUNCH_ASSIGN_OR_RETURN(ArtifactDescription description, ParseDescription(json));
  LAUNCH_RETURN_IF_ERROR(CheckStage(description.binary_stage));
  ArtifactId id;
  if (key) {
    id.key = *key;
  } else if (!description.key.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(id.key, DigestNamed("key", description.key));
  }
  if (digest) {
    id.binary = *digest;
  } else if (!description.binary_digest.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(id.binary, DigestNamed("digest", description.binary_digest));
  } else {
    return InvalidArgument("{}: the binary's digest is missing, so it cannot be checked",
                           LabelOf(id, description.metadata));
  }
  if (id.key == Sha256Digest{}) id.metadata = Sha256(description.metadata_text);
  const std::string label = LabelOf(id, description.metadata);
  if (const Sha256Digest actual = Sha256(binary); actual != id.binary) {
    return DataLoss("{}: the binary's {} bytes should have digest {}, have {}", label,
                    binary.size(), ToHex(id.binary), ToHex(actual));
  }
  LAUNCH_RETURN_IF_ERROR(CheckImage(description.metadata.backend, binary).Annotate(label));
  return std::shared_ptr<const Artifact>(new Artifact(id, std::move(description.metadata), binary));
}

StatusOr<std::shared_ptr<const Artifact>> Artifact::FromHotFile(
    const std::string& path, const std::optional<Sha256Digest>& expected_key,
    std::optional<uid_t> server_uid) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string file,
                          ReadTrustedFile(path, ArtifactFileBytesMax(), server_uid));
  ArtifactLayout layout;
  if (const ArtifactLayoutError error = ParseArtifactLayout(file, layout); !error.message.empty()) {
    return Status(error.is_newer ? Code::kFailedPrecondition : Code::kDataLoss,
                  fmt::format("{}: {}", path, error.message));
  }
  const Sha256Digest key = DigestAt(layout.key.data());
  if (expected_key && key != *expected_key) {
    return DataLoss("{} holds the artifact {}", path, ToHex(key));
  }
  if (layout.stages.empty()) return DataLoss("{} has no binary", path);
  const ArtifactLayoutStage& last = layout.stages.back();
  LAUNCH_RETURN_IF_ERROR(CheckStage(last.name).Annotate(path));
  return FromBytes(layout.document, last.bytes, DigestAt(last.digest.data()), key).Annotate(path);
}

StatusOr<std::shared_ptr<const Artifact>> Artifact::FromJsonFile(const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, limits::kRecordBytesMax));
  LAUNCH_ASSIGN_OR_RETURN(const auto description, ParseDescription(json).Annotate(path));
  LAUNCH_ASSIGN_OR_RETURN(const std::string binary_path,
                          Beside(path, description.binary_file).Annotate(path));
  LAUNCH_ASSIGN_OR_RETURN(const std::string binary, ReadFile(binary_path, limits::kBlobBytesMax));
  return FromBytes(json, binary, std::nullopt, std::nullopt).Annotate(binary_path);
}

}  // namespace kiln::launch
