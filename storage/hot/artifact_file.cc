#include "storage/hot/artifact_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"

namespace kiln {
namespace {

// Up to this size reading is faster than mapping: mapping a page costs more than copying it.
constexpr size_t kReadBytesMax = 512 * limits::kKiB;
// What is shorter is read without a look at the file's size: fstat(2) costs as much as its
// checksum.
constexpr size_t kFirstReadBytes = 64 * limits::kKiB;

size_t Aligned(size_t offset) {
  return (offset + kArtifactAlignment - 1) / kArtifactAlignment * kArtifactAlignment;
}

}  // namespace

absl::StatusOr<std::string> EncodeArtifactFile(const Digest& key, std::string_view document,
                                               std::string_view description,
                                               std::span<const NamedBlob> stages) {
  if (stages.size() > limits::kStagesMax) {
    return InvalidArgument("{} stages, an artifact file holds {}", stages.size(),
                           limits::kStagesMax);
  }
  ArtifactHeader header{};
  std::memcpy(header.magic, kArtifactMagic, sizeof kArtifactMagic);
  header.version = kArtifactVersion;
  header.stage_count = static_cast<uint32_t>(stages.size());
  std::memcpy(header.key, key.Bytes().data(), sizeof header.key);
  header.document_offset = sizeof(ArtifactHeader) + stages.size() * sizeof(ArtifactStageEntry);
  header.document_bytes = document.size();

  const size_t description_offset = header.document_offset + document.size();
  const auto description_bytes = static_cast<uint32_t>(description.size());
  size_t end = description_offset + sizeof description_bytes + description.size();
  std::vector<ArtifactStageEntry> entries;
  for (const NamedBlob& stage : stages) {
    if (stage.stage.empty() || stage.stage.size() >= kStageNameBytes) {
      return InvalidArgument("stage name of {} bytes, an artifact file holds 1 to {}",
                             stage.stage.size(), kStageNameBytes - 1);
    }
    ArtifactStageEntry entry{};
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
                               entries.size() * sizeof(ArtifactStageEntry));
  table.copy(file.data() + sizeof header, table.size());
  document.copy(file.data() + header.document_offset, document.size());
  std::memcpy(file.data() + description_offset, &description_bytes, sizeof description_bytes);
  description.copy(file.data() + description_offset + sizeof description_bytes, description.size());
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::string_view bytes = stages[i].blob.bytes();
    bytes.copy(file.data() + entries[i].offset, bytes.size());
  }
  std::memcpy(file.data(), &header, sizeof header);
  header.checksum = ArtifactChecksum(file);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

absl::StatusOr<MappedArtifact> MappedArtifact::Open(const std::string& path,
                                                    const Digest& expected_key, int directory) {
  // O_NONBLOCK: opening a pipe must not hang.
  const UniqueFd fd(
      openat(directory, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ELOOP) return FailedPrecondition("{} is a symbolic link", path);
    return ErrnoStatus(errno, path);
  }
  KILN_ASSIGN_OR_RETURN(MappedArtifact artifact, Load(fd.get(), path));
  const std::string_view bytes(static_cast<const char*>(artifact.address_), artifact.size_bytes_);
  const ArtifactLayoutError error = ParseArtifactLayout(bytes, artifact.layout_);
  if (error.is_newer) return FailedPrecondition("{}: {}", path, error.message);
  if (!error.message.empty()) return DataLoss("{}: {}", path, error.message);
  if (artifact.layout_.key != expected_key.Bytes()) {
    return DataLoss("{} holds the artifact {}", path,
                    Digest::FromBytes(artifact.layout_.key)->Hex());
  }
  return artifact;
}

absl::StatusOr<MappedArtifact> MappedArtifact::Load(int fd, const std::string& path) {
  KILN_ASSIGN_OR_RETURN(MappedArtifact beginning, Read(fd, kFirstReadBytes, path));
  const bool is_whole =
      beginning.size_bytes_ >= sizeof(ArtifactHeader) && beginning.size_bytes_ < kFirstReadBytes;
  if (is_whole) return beginning;
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return FailedPrecondition("{} is not a regular file", path);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size < sizeof(ArtifactHeader) || size > ArtifactFileBytesMax()) {
    return DataLoss("{} has {} bytes, too few or too many for an artifact file", path, size);
  }
  return size <= kReadBytesMax ? Read(fd, size, path) : Map(fd, size, path);
}

absl::StatusOr<MappedArtifact> MappedArtifact::Read(int fd, size_t size, const std::string& path) {
  // Aligned by hand: aligned_alloc costs more than the read.
  void* allocated = std::malloc(size + kArtifactAlignment - 1);
  if (allocated == nullptr) return ErrnoStatus(ENOMEM, path);
  void* address = allocated;
  size_t room = size + kArtifactAlignment - 1;
  std::align(kArtifactAlignment, size, address, room);
  // From a regular file one call reads all that there is.
  const ssize_t got = pread(fd, address, size, 0);
  return MappedArtifact(address, got < 0 ? 0 : static_cast<size_t>(got), allocated);
}

absl::StatusOr<MappedArtifact> MappedArtifact::Map(int fd, size_t size, const std::string& path) {
  // MAP_POPULATE: the checksum reads everything, and one call beats a fault per page.
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
  layout_ = std::move(other.layout_);
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

}  // namespace kiln
