// The byte layout of an artifact file (storage/format.md). Needs neither Abseil nor OpenSSL, so
// that the launch library, which users load into their processes, can share this code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// What clients need of the toolchains, beside the artifact files.
inline constexpr char kPublishedToolchains[] = "toolchains";

// Behind the name of an artifact's file: the file of the stages before the final binary.
inline constexpr char kEarlierStages[] = ".stages";

inline constexpr size_t kArtifactDigestBytes = 32;
// GPU drivers read binaries in place. Cubins and code objects are ELF files, which need less.
inline constexpr size_t kArtifactAlignment = 64;

inline constexpr char kArtifactMagic[8] = {'K', 'I', 'L', 'N', 'A', 'R', 'T', '\n'};
inline constexpr uint32_t kArtifactVersion = 1;

struct ArtifactHeader {
  char magic[8];
  uint32_t version;
  uint32_t stage_count;
  uint64_t file_bytes;
  uint64_t checksum;  // XXH3-64 of everything after this field
  uint8_t key[kArtifactDigestBytes];
  uint64_t document_offset;
  uint64_t document_bytes;
};
static_assert(sizeof(ArtifactHeader) == 80);
inline constexpr size_t kArtifactChecksummedFrom = 32;
static_assert(offsetof(ArtifactHeader, key) == kArtifactChecksummedFrom);

inline constexpr size_t kStageNameBytes = 32;

struct ArtifactStageEntry {
  char name[kStageNameBytes];  // padded with zeroes; at least one
  uint8_t digest[kArtifactDigestBytes];
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(ArtifactStageEntry) == 80);

// The largest size of an artifact file.
uint64_t ArtifactFileBytesMax();

uint64_t ArtifactChecksum(std::string_view file);

// One stage, as views into the file.
struct ArtifactLayoutStage {
  std::string_view name;
  std::string_view digest;  // 32 bytes
  std::string_view bytes;
};

// A whole file, as views into it.
struct ArtifactLayout {
  std::string_view key;  // 32 bytes
  std::string_view document;
  std::string_view description;  // empty: there is none
  std::vector<ArtifactLayoutStage> stages;
};

struct ArtifactLayoutError {
  std::string message;    // empty: nothing is wrong
  bool is_newer = false;  // a newer Kiln wrote the file; it is not damaged
};

// Checks magic, version, all offsets, and the checksum. `file` may be anything. `layout` is
// complete only where there is no error.
[[nodiscard]] ArtifactLayoutError ParseArtifactLayout(std::string_view file,
                                                      ArtifactLayout& layout);

}  // namespace kiln
