// Where things stand in an artifact file, byte by byte (storage/format.md). Needs neither Abseil
// nor OpenSSL, so that the launch library, which lives inside other people's processes, reads the
// same file with the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

inline constexpr size_t kArtifactDigestBytes = 32;
// Binaries are handed to GPU drivers in place: cubins and code objects are ELF files, so 64 is more
// than they ask for.
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

// No artifact file is larger.
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
  std::vector<ArtifactLayoutStage> stages;
};

struct ArtifactLayoutError {
  std::string message;    // empty: nothing is wrong
  bool is_newer = false;  // not damaged, but written by a newer Kiln
};

// Checks magic, version, every offset, and the checksum over the whole file. `file` may come from
// anywhere and be anything. `layout` is complete only where nothing is wrong.
[[nodiscard]] ArtifactLayoutError ParseArtifactLayout(std::string_view file,
                                                      ArtifactLayout& layout);

}  // namespace kiln
