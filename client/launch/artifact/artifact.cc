#include "client/launch/artifact/artifact.h"

#include <cstring>
#include <new>

#include "client/launch/artifact/file.h"
#include "storage/base/elf_file.h"
#include "storage/base/limits.h"
#include "storage/hot/artifact_layout.h"

namespace kiln::launch {
namespace {

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
  if (stage == "cubin" || stage == "hsaco" || stage.empty()) return Status();
  return InvalidArgument(
      "the artifact ends with {}, which no driver launches: have it compiled to "
      "cubin or hsaco",
      stage);
}

// Names of files in a JSON never lead out of its folder.
StatusOr<std::string> Beside(const std::string& path, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name == "..") {
    return InvalidArgument("its stages name no file beside it, as `kiln compile -o` has it");
  }
  return path.substr(0, path.rfind('/') + 1) + name;
}

}  // namespace

Status CheckElfImage(std::string_view image) {
  if (!IsElf64(image)) {
    return InvalidArgument(
        "the binary's {} bytes are not a 64-bit ELF file, as cubins and HSACOs are", image.size());
  }
  if (IsWholeElf64(image)) return Status();
  return InvalidArgument("the binary's headers point outside its {} bytes: it is cut off",
                         image.size());
}

ImageBytes::ImageBytes(std::string_view bytes)
    : bytes_(static_cast<char*>(
          ::operator new (bytes.size() + 1, std::align_val_t{kArtifactAlignment}))),
      size_(bytes.size()) {
  std::memcpy(bytes_.get(), bytes.data(), size_);
}

void ImageBytes::Free::operator()(char* bytes) const {
  ::operator delete (bytes, std::align_val_t{kArtifactAlignment});
}

Artifact::Artifact(ArtifactId id, KernelMetadata metadata, std::string_view binary)
    : id_(id), metadata_(std::move(metadata)), binary_(binary), label_(LabelOf(id_, metadata_)) {}

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
  LAUNCH_RETURN_IF_ERROR(CheckElfImage(binary).Annotate(label));
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
