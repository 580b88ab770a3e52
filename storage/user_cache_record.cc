#include "storage/user_cache_record.h"

#include "storage/base/byte_codec.h"
#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr std::string_view kTag = "KILN-OWN";
constexpr size_t kHashBytes = Digest::kSizeBytes - kTag.size();
// Documents of artifacts are JSON, which never begins so.
constexpr std::string_view kMagic = "KILNOWN\n";
constexpr uint8_t kVersion = 1;

void WriteOwnFile(const UserCacheRecord::File& file, ByteWriter& writer) {
  writer.String(file.name);
  writer.Raw(file.digest.Bytes());
  writer.Number(file.size_bytes);
  writer.Number(static_cast<uint8_t>(file.output.has_value()));
  if (!file.output) return;
  writer.Raw(file.output->artifact.Bytes());
  writer.String(file.output->stage);
}

// Empty after an error of the reader.
Digest ReadDigest(ByteReader& reader) {
  return Digest::FromBytes(reader.Raw(Digest::kSizeBytes)).value_or(Digest());
}

UserCacheRecord::File ReadOwnFile(ByteReader& reader) {
  UserCacheRecord::File file;
  file.name = std::string(reader.String());
  file.digest = ReadDigest(reader);
  file.size_bytes = reader.Number<uint64_t>();
  if (reader.Number<uint8_t>() == 0) return file;
  file.output.emplace();
  file.output->artifact = ReadDigest(reader);
  file.output->stage = std::string(reader.String());
  return file;
}

}  // namespace

Digest UserCacheKey(uid_t uid, std::string_view key) {
  ByteWriter writer;
  writer.Raw("kiln-own-1\n");
  writer.Number(static_cast<uint32_t>(uid));
  writer.Raw(key);
  const Digest hash = Digest::Of(writer.bytes());
  // The hash stands in front, since samples need random first bytes.
  return *Digest::FromBytes(
      std::string(hash.Bytes().substr(0, kHashBytes)).append(kTag));  // 32 bytes
}

bool IsUserCacheKey(const Digest& key) { return key.Bytes().substr(kHashBytes) == kTag; }

std::string EncodeUserCacheRecord(const UserCacheRecord& record) {
  ByteWriter writer;
  writer.Raw(kMagic);
  writer.Number(kVersion);
  writer.Number(static_cast<uint32_t>(record.uid));
  writer.String(record.key);
  writer.Number(static_cast<uint32_t>(record.files.size()));
  for (const UserCacheRecord::File& file : record.files) WriteOwnFile(file, writer);
  return writer.Take();
}

absl::StatusOr<UserCacheRecord> DecodeUserCacheRecord(std::string_view document) {
  ByteReader reader(document);
  if (reader.Raw(kMagic.size()) != kMagic) return DataLoss("not a user cache entry");
  if (const auto version = reader.Number<uint8_t>(); version != kVersion) {
    return DataLoss("the entry has the unknown version {}", version);
  }
  UserCacheRecord record;
  record.uid = reader.Number<uint32_t>();
  record.key = std::string(reader.String());
  const auto files = reader.Number<uint32_t>();
  if (files > limits::kUserCacheFilesMax) return DataLoss("the entry has {} files", files);
  for (uint32_t i = 0; i < files; ++i) record.files.push_back(ReadOwnFile(reader));
  if (!reader.AtEnd()) return DataLoss("the entry is longer or shorter than it says");
  return record;
}

}  // namespace kiln
