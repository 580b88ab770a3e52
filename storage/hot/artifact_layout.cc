#include "storage/hot/artifact_layout.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <optional>

#include "storage/base/checksum.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

static_assert(std::endian::native == std::endian::little,
              "artifact files are little-endian and are read in place");

template <typename T>
T ReadAt(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The part of `file` that a pair of untrusted numbers names. Empty optional: outside the file.
std::optional<std::string_view> Part(std::string_view file, uint64_t offset, uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) return std::nullopt;
  return file.substr(offset, size);
}

// What stands behind the document, with its size before it. Empty: there is none.
std::string_view ParseDescription(std::string_view file, size_t at) {
  if (file.size() - at < sizeof(uint32_t)) return {};
  return Part(file, at + sizeof(uint32_t), ReadAt<uint32_t>(file, at)).value_or("");
}

std::string CheckHeader(std::string_view file, const ArtifactHeader& header) {
  if (header.file_bytes != file.size()) {
    return fmt::format("the artifact file has {} bytes, should have {}", file.size(),
                       header.file_bytes);
  }
  if (header.checksum != ArtifactChecksum(file)) {
    return "the artifact file does not match its checksum";
  }
  // The checksum guards against damage, not against malice: the bounds are checked all the same.
  if (header.stage_count > limits::kStagesMax ||
      sizeof(ArtifactHeader) + header.stage_count * sizeof(ArtifactStageEntry) > file.size()) {
    return fmt::format("{} stages do not fit into the artifact file", header.stage_count);
  }
  return "";
}

std::string ParseStage(std::string_view file, size_t at, ArtifactLayout& layout) {
  const char* name = file.data() + at;
  const size_t length = strnlen(name, kStageNameBytes);
  if (length == 0 || length == kStageNameBytes) return "a stage has no proper name";
  const auto entry = ReadAt<ArtifactStageEntry>(file, at);
  const auto bytes = Part(file, entry.offset, entry.bytes);
  if (!bytes) {
    return fmt::format("stage {} lies outside the file", std::string_view(name, length));
  }
  layout.stages.push_back(
      {{name, length},
       file.substr(at + offsetof(ArtifactStageEntry, digest), kArtifactDigestBytes),
       *bytes});
  return "";
}

}  // namespace

uint64_t ArtifactFileBytesMax() {
  return limits::kRecordBytesMax +
         limits::kStagesMax * (limits::kBlobBytesMax + kArtifactAlignment);
}

uint64_t ArtifactChecksum(std::string_view file) {
  return Checksum64(file.substr(kArtifactChecksummedFrom));
}

ArtifactLayoutError ParseArtifactLayout(std::string_view file, ArtifactLayout& layout) {
  if (file.size() < sizeof(ArtifactHeader)) {
    return {fmt::format("{} bytes are too few for an artifact file", file.size())};
  }
  const auto header = ReadAt<ArtifactHeader>(file, 0);
  if (std::memcmp(header.magic, kArtifactMagic, sizeof kArtifactMagic) != 0) {
    return {"not an artifact file: wrong magic"};
  }
  if (header.version != kArtifactVersion) {
    return {fmt::format("artifact file of version {}, this program reads version {}",
                        header.version, kArtifactVersion),
            /*is_newer=*/true};
  }
  if (std::string wrong = CheckHeader(file, header); !wrong.empty()) return {std::move(wrong)};
  const auto document = Part(file, header.document_offset, header.document_bytes);
  if (!document) return {"the document lies outside the artifact file"};

  layout.key = file.substr(offsetof(ArtifactHeader, key), kArtifactDigestBytes);
  layout.document = *document;
  layout.description = ParseDescription(file, header.document_offset + header.document_bytes);
  layout.stages.clear();
  layout.stages.reserve(header.stage_count);
  for (size_t i = 0; i < header.stage_count; ++i) {
    std::string wrong =
        ParseStage(file, sizeof(ArtifactHeader) + i * sizeof(ArtifactStageEntry), layout);
    if (!wrong.empty()) return {std::move(wrong)};
  }
  return {};
}

}  // namespace kiln
