#include "storage/base/artifact_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

static_assert(std::endian::native == std::endian::little,
              "artifact files are little-endian and are read in place");

constexpr char kMagic[8] = {'K', 'I', 'L', 'N', 'A', 'R', 'T', '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kStageNameBytes = 32;
// Binaries are handed to GPU drivers in place: cubins and code objects are ELF files, so 64 is more
// than they ask for.
constexpr size_t kAlignment = 64;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t stage_count;
  uint64_t file_bytes;
  uint64_t checksum;  // XXH3-64 of everything after this field
  uint8_t key[Digest::kSizeBytes];
  uint64_t document_offset;
  uint64_t document_bytes;
};
static_assert(sizeof(Header) == 80);
constexpr size_t kChecksummedFrom = 32;
static_assert(offsetof(Header, key) == kChecksummedFrom);

struct StageEntry {
  char name[kStageNameBytes];  // padded with zeroes; at least one
  uint8_t digest[Digest::kSizeBytes];
  uint64_t offset;
  uint64_t bytes;
};
static_assert(sizeof(StageEntry) == 80);

// Up to here reading into memory is faster than mapping: setting up and tearing down a page costs
// more than copying it.
constexpr size_t kReadBytesMax = 512 * limits::kKiB;

constexpr uint64_t FileBytesMax() {
  return limits::kRecordBytesMax + limits::kStagesMax * (limits::kBlobBytesMax + kAlignment);
}

uint64_t ChecksumOf(std::string_view file) { return Checksum64(file.substr(kChecksummedFrom)); }

size_t Aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

Digest DigestAt(const uint8_t (&bytes)[Digest::kSizeBytes]) {
  // 32 bytes are always a digest.
  return *Digest::FromBytes({reinterpret_cast<const char*>(bytes), sizeof bytes});
}

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

absl::StatusOr<ArtifactFileStage> DecodeStage(std::string_view file, size_t at) {
  const auto* name = file.data() + at;
  const size_t length = strnlen(name, kStageNameBytes);
  if (length == 0 || length == kStageNameBytes) return DataLoss("a stage has no proper name");
  const auto entry = ReadAt<StageEntry>(file, at);
  const auto bytes = Part(file, entry.offset, entry.bytes);
  if (!bytes) return DataLoss("stage {} lies outside the file", std::string_view(name, length));
  return ArtifactFileStage{{name, length}, DigestAt(entry.digest), *bytes};
}

}  // namespace

const ArtifactFileStage* ArtifactFileView::Find(std::string_view stage) const {
  for (const ArtifactFileStage& one : stages) {
    if (one.stage == stage) return &one;
  }
  return nullptr;
}

absl::StatusOr<std::string> EncodeArtifactFile(const Digest& key, std::string_view document,
                                               std::span<const NamedBlob> stages) {
  if (stages.size() > limits::kStagesMax) {
    return InvalidArgument("{} stages, an artifact file holds {}", stages.size(),
                           limits::kStagesMax);
  }
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.stage_count = static_cast<uint32_t>(stages.size());
  std::memcpy(header.key, key.Bytes().data(), sizeof header.key);
  header.document_offset = sizeof(Header) + stages.size() * sizeof(StageEntry);
  header.document_bytes = document.size();

  size_t end = header.document_offset + document.size();
  std::vector<StageEntry> entries;
  for (const NamedBlob& stage : stages) {
    if (stage.stage.empty() || stage.stage.size() >= kStageNameBytes) {
      return InvalidArgument("stage name of {} bytes, an artifact file holds 1 to {}",
                             stage.stage.size(), kStageNameBytes - 1);
    }
    StageEntry entry{};
    std::memcpy(entry.name, stage.stage.data(), stage.stage.size());
    std::memcpy(entry.digest, stage.blob.digest().Bytes().data(), sizeof entry.digest);
    entry.offset = Aligned(end);
    entry.bytes = stage.blob.size_bytes();
    end = entry.offset + entry.bytes;
    entries.push_back(entry);
  }
  header.file_bytes = end;

  std::string file(end, '\0');
  const std::string_view table(reinterpret_cast<const char*>(entries.data()),
                               entries.size() * sizeof(StageEntry));
  table.copy(file.data() + sizeof header, table.size());
  document.copy(file.data() + header.document_offset, document.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::string_view bytes = stages[i].blob.bytes();
    bytes.copy(file.data() + entries[i].offset, bytes.size());
  }
  std::memcpy(file.data(), &header, sizeof header);
  header.checksum = ChecksumOf(file);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

absl::StatusOr<ArtifactFileView> DecodeArtifactFile(std::string_view bytes) {
  if (bytes.size() < sizeof(Header)) {
    return DataLoss("{} bytes are too few for an artifact file", bytes.size());
  }
  const auto header = ReadAt<Header>(bytes, 0);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return DataLoss("not an artifact file: wrong magic");
  }
  if (header.version != kVersion) {
    return FailedPrecondition("artifact file of version {}, this program reads version {}",
                              header.version, kVersion);
  }
  if (header.file_bytes != bytes.size()) {
    return DataLoss("the artifact file has {} bytes, should have {}", bytes.size(),
                    header.file_bytes);
  }
  if (header.checksum != ChecksumOf(bytes)) {
    return DataLoss("the artifact file does not match its checksum");
  }
  // The checksum guards against damage, not against malice: the bounds are checked all the same.
  if (header.stage_count > limits::kStagesMax ||
      sizeof(Header) + header.stage_count * sizeof(StageEntry) > bytes.size()) {
    return DataLoss("{} stages do not fit into the artifact file", header.stage_count);
  }
  const auto document = Part(bytes, header.document_offset, header.document_bytes);
  if (!document) return DataLoss("the document lies outside the artifact file");

  ArtifactFileView view;
  view.key = DigestAt(header.key);
  view.document = *document;
  view.stages.reserve(header.stage_count);
  for (size_t i = 0; i < header.stage_count; ++i) {
    KILN_ASSIGN_OR_RETURN(ArtifactFileStage stage,
                          DecodeStage(bytes, sizeof(Header) + i * sizeof(StageEntry)));
    view.stages.push_back(stage);
  }
  return view;
}

absl::StatusOr<MappedArtifact> MappedArtifact::Open(const std::string& path,
                                                    const Digest& expected_key) {
  return OpenAt(AT_FDCWD, path, expected_key);
}

absl::StatusOr<MappedArtifact> MappedArtifact::OpenAt(int directory, const std::string& path,
                                                      const Digest& expected_key,
                                                      const FileCheck& check) {
  // O_NONBLOCK: a pipe in the file's place must not hang the job.
  const UniqueFd fd(
      openat(directory, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ELOOP) return FailedPrecondition("{} is a symbolic link", path);
    return ErrnoStatus(errno, path);
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return FailedPrecondition("{} is not a regular file", path);
  if (check) KILN_RETURN_IF_ERROR(check(info, path));
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < sizeof(Header) || size > FileBytesMax()) {
    return DataLoss("{} has {} bytes, which no artifact file has", path, size);
  }
  KILN_ASSIGN_OR_RETURN(MappedArtifact mapped, size <= kReadBytesMax ? Read(fd.get(), size, path)
                                                                     : Map(fd.get(), size, path));
  auto view = DecodeArtifactFile({static_cast<const char*>(mapped.address_), size});
  if (!view.ok()) return Annotate(view.status(), path);
  if (view->key != expected_key) {
    return DataLoss("{} holds the artifact {}", path, view->key.Hex());
  }
  mapped.view_ = *std::move(view);
  return mapped;
}

absl::StatusOr<MappedArtifact> MappedArtifact::Read(int fd, size_t size, const std::string& path) {
  // Aligned by hand: what aligned_alloc cuts off and gives back costs more than the read itself.
  void* allocated = std::malloc(size + kAlignment - 1);
  if (allocated == nullptr) return ErrnoStatus(ENOMEM, path);
  void* address = allocated;
  size_t room = size + kAlignment - 1;
  std::align(kAlignment, size, address, room);
  MappedArtifact artifact(address, size, allocated);
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got = read(fd, static_cast<char*>(address) + filled, size - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) return DataLoss("{} ends after {} bytes, it had {}", path, filled, size);
    filled += static_cast<size_t>(got);
  }
  return artifact;
}

absl::StatusOr<MappedArtifact> MappedArtifact::Map(int fd, size_t size, const std::string& path) {
  // MAP_POPULATE: everything is about to be read for the checksum; one call beats a fault per page.
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  if (address == MAP_FAILED) return ErrnoStatus(errno, path);
  return MappedArtifact(address, size, nullptr);
}

MappedArtifact::MappedArtifact(MappedArtifact&& other) noexcept { *this = std::move(other); }

MappedArtifact& MappedArtifact::operator=(MappedArtifact&& other) noexcept {
  if (this == &other) return *this;
  Release();
  address_ = std::exchange(other.address_, nullptr);
  size_bytes_ = other.size_bytes_;
  allocated_ = std::exchange(other.allocated_, nullptr);
  view_ = std::exchange(other.view_, {});
  return *this;
}

MappedArtifact::~MappedArtifact() { Release(); }

void MappedArtifact::Release() {
  if (address_ == nullptr) return;
  if (allocated_ != nullptr) {
    std::free(allocated_);
  } else {
    munmap(address_, size_bytes_);
  }
}

absl::StatusOr<Blob> MappedArtifact::VerifiedBlob(std::string_view stage) const {
  const ArtifactFileStage* found = view_.Find(stage);
  if (found == nullptr) return NotFound("the artifact file carries no stage {}", stage);
  return Blob::Verify(std::string(found->bytes), found->digest);
}

}  // namespace kiln
