#include "storage/user_cache.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "storage/artifact_value.h"
#include "storage/base/limits.h"
#include "storage/base/log.h"
#include "storage/lookup_without_use.h"

namespace kiln {
namespace {

// The cost of a miss for eviction: about the time that gcc takes for a Triton launcher. Clients do
// not report a cost, since nobody could check it.
constexpr uint64_t kMissMicros = 100'000;

absl::Status CheckUserCacheKey(std::string_view key) {
  if (!key.empty() && key.size() <= limits::kUserCacheKeyBytesMax) return absl::OkStatus();
  return InvalidArgument("the key has {} bytes, allowed are 1 to {}", key.size(),
                         limits::kUserCacheKeyBytesMax);
}

absl::Status CheckNames(const std::vector<UserCacheFile>& files) {
  if (files.empty() || files.size() > limits::kUserCacheFilesMax) {
    return InvalidArgument("the entry has {} files, allowed are 1 to {}", files.size(),
                           limits::kUserCacheFilesMax);
  }
  std::set<std::string_view> names;
  for (const UserCacheFile& file : files) {
    if (file.name.empty() || file.name.size() > limits::kUserCacheNameBytesMax) {
      return InvalidArgument("a file name has {} bytes, allowed are 1 to {}", file.name.size(),
                             limits::kUserCacheNameBytesMax);
    }
    if (!names.insert(file.name).second) {
      return InvalidArgument("two files of one entry have the same name");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Salt() {
  std::string salt(kUserCacheSaltBytes, '\0');
  if (getentropy(salt.data(), salt.size()) != 0) return ErrnoStatus(errno, "getentropy");
  return salt;
}

const StageReference* FindOutput(const ArtifactRecord& record, const ArtifactOutput& output,
                                 const Digest& digest) {
  if (output.stage == kRequestStage) return nullptr;  // no output of a compiler
  const auto stage =
      std::find_if(record.stages.begin(), record.stages.end(), [&](const StageReference& each) {
        return each.stage == output.stage && each.digest == digest;
      });
  return stage == record.stages.end() ? nullptr : &*stage;
}

absl::Status NoSuchOutput(const ArtifactOutput& output) {
  return NotFound("no artifact {} with that {} is stored", output.artifact.ShortHex(),
                  output.stage);
}

absl::Status NoEntry() { return NotFound("no such entry"); }

// The contents that no artifact has, one behind the other.
absl::StatusOr<std::string> Pack(const std::vector<UserCacheFile>& files) {
  KILN_ASSIGN_OR_RETURN(std::string pack, Salt());
  for (const UserCacheFile& file : files) {
    if (!file.output) pack += file.content;
  }
  return pack;
}

// Reads artifacts of one entry's files. Keeps the last record, since each Get counts as a use.
class Outputs {
 public:
  Outputs(const CallContext& context, ArtifactIndex& index, BlobStore& blobs)
      : context_(context), index_(index), blobs_(blobs) {}

  absl::StatusOr<Blob> Read(const ArtifactOutput& output, const Digest& digest) {
    if (record_ == nullptr || record_->key != output.artifact) {
      KILN_ASSIGN_OR_RETURN(FoundArtifact found, index_.Get(context_, output.artifact));
      record_ = std::move(found.record);
    }
    if (FindOutput(*record_, output, digest) == nullptr) return NoSuchOutput(output);
    KILN_ASSIGN_OR_RETURN(FoundBlob found, blobs_.GetBlob(context_, digest));
    return std::move(found.blob);
  }

 private:
  const CallContext& context_;
  ArtifactIndex& index_;
  BlobStore& blobs_;
  std::shared_ptr<const ArtifactRecord> record_;
};

}  // namespace

absl::StatusOr<std::vector<UserCacheFile>> UserCache::Get(const CallContext& context,
                                                          std::string_view key) {
  KILN_RETURN_IF_ERROR(CheckUserCacheKey(key));
  const uid_t uid = context.principal.uid;
  const Digest id = UserCacheKey(uid, key);
  const auto found = index_.Get(context, id);
  // The index has quarantined the damaged record.
  if (absl::IsDataLoss(found.status())) return NoEntry();
  KILN_RETURN_IF_ERROR(found.status());
  const auto record = DecodeUserCacheRecord(found->record->document);
  if (!record.ok() || record->uid != uid || record->key != key) {
    LogWarning("a user cache entry does not match its key", {{"key", id.Hex()}});
    return NoEntry();
  }
  auto files = ReadContents(context, *found->record);
  const absl::Status status = files.ok() ? AddOutputs(context, *files) : files.status();
  if (absl::IsDataLoss(status)) return NoEntry();
  KILN_RETURN_IF_ERROR(status);
  quota_.Touch(id);
  return files;
}

bool UserCache::Has(const CallContext& context, std::string_view key) {
  const Digest id = UserCacheKey(context.principal.uid, key);
  const auto found = LookupWithoutUse(context, index_, id);
  if (!found.ok() || !*found || !HasContents(context, *(*found)->record)) return false;
  quota_.Touch(id);
  return true;
}

absl::StatusOr<std::vector<UserCacheFile>> UserCache::ReadContents(const CallContext& context,
                                                                   const ArtifactRecord& stored) {
  KILN_ASSIGN_OR_RETURN(const UserCacheRecord record, DecodeUserCacheRecord(stored.document));
  Blob pack;
  if (!stored.stages.empty()) {
    KILN_ASSIGN_OR_RETURN(FoundBlob found, blobs_.GetBlob(context, stored.stages.front().digest));
    pack = std::move(found.blob);
  }
  std::string_view rest = pack.bytes().substr(std::min(kUserCacheSaltBytes, pack.size_bytes()));
  std::vector<UserCacheFile> files;
  for (const UserCacheRecord::File& each : record.files) {
    files.push_back({each.name, "", each.output, each.digest});
    if (each.output) continue;
    if (each.size_bytes > rest.size()) return DataLoss("an entry's contents are too short");
    files.back().content = std::string(rest.substr(0, each.size_bytes));
    rest.remove_prefix(each.size_bytes);
  }
  return files;
}

absl::Status UserCache::AddOutputs(const CallContext& context, std::vector<UserCacheFile>& files) {
  Outputs outputs(context, index_, blobs_);
  for (UserCacheFile& file : files) {
    if (!file.output) continue;
    KILN_ASSIGN_OR_RETURN(const Blob blob, outputs.Read(*file.output, file.digest));
    file.content = std::string(blob.bytes());
  }
  return absl::OkStatus();
}

absl::Status UserCache::Put(const CallContext& context, std::string_view key,
                            std::vector<UserCacheFile> files) {
  KILN_RETURN_IF_ERROR(CheckUserCacheKey(key));
  KILN_RETURN_IF_ERROR(CheckNames(files));
  KILN_ASSIGN_OR_RETURN(const UserCacheRecord record, Describe(context, key, files));
  ArtifactRecord stored;
  stored.key = UserCacheKey(record.uid, key);
  stored.document = EncodeUserCacheRecord(record);
  // All ranks of a job put the same entries.
  if (IsStored(context, stored.key, stored.document)) {
    quota_.Touch(stored.key);
    return absl::OkStatus();
  }
  std::vector<Blob> blobs;
  if (std::any_of(files.begin(), files.end(), [](const auto& file) { return !file.output; })) {
    KILN_ASSIGN_OR_RETURN(std::string pack, Pack(files));
    blobs.push_back(Blob::FromBytes(std::move(pack)));
    stored.stages.push_back(
        {std::string(kUserCacheStage), blobs.front().digest(), blobs.front().size_bytes()});
  }
  stored.compile_micros = kMissMicros;
  stored.created_unix_ms = clock_.UnixMillis();

  const uint64_t bytes = ArtifactBytes(stored);
  KILN_RETURN_IF_ERROR(quota_.CheckFits(bytes));
  while (const auto oldest = quota_.NextToEvict(record.uid, stored.key, bytes)) {
    const absl::Status removed = index_.Remove(context, *oldest);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
    // The quota has heard of it, and perhaps of a newer entry with that key since.
  }
  return index_.Put(context, stored, blobs);
}

absl::StatusOr<UserCacheRecord> UserCache::Describe(const CallContext& context,
                                                    std::string_view key,
                                                    const std::vector<UserCacheFile>& files) {
  UserCacheRecord record{context.principal.uid, std::string(key), {}};
  uint64_t bytes = 0;
  for (const UserCacheFile& file : files) {
    UserCacheRecord::File described{file.name, file.digest, file.content.size(), file.output};
    if (file.output) {
      KILN_ASSIGN_OR_RETURN(const auto found,
                            LookupWithoutUse(context, index_, file.output->artifact));
      const StageReference* const output =
          found ? FindOutput(*found->record, *file.output, file.digest) : nullptr;
      // User cache entries are no artifacts.
      if (output == nullptr || IsUserCacheKey(file.output->artifact))
        return NoSuchOutput(*file.output);
      described.size_bytes = output->size_bytes;
    } else {
      described.digest = Digest::Of(file.content);
      if (!file.digest.IsZero() && file.digest != described.digest) {
        return InvalidArgument("a content of {} bytes does not match its digest {}",
                               file.content.size(), file.digest.ShortHex());
      }
    }
    bytes += described.size_bytes;
    record.files.push_back(std::move(described));
  }
  if (bytes > limits::kUserCacheEntryBytesMax) {
    return InvalidArgument("the entry has {} bytes, the limit is {}", bytes,
                           limits::kUserCacheEntryBytesMax);
  }
  return record;
}

bool UserCache::IsStored(const CallContext& context, const Digest& key,
                         const std::string& document) {
  const auto found = LookupWithoutUse(context, index_, key);
  return found.ok() && *found && (*found)->record->document == document &&
         HasContents(context, *(*found)->record);
}

bool UserCache::HasContents(const CallContext& context, const ArtifactRecord& stored) {
  std::vector<Digest> digests;
  for (const StageReference& stage : stored.stages) digests.push_back(stage.digest);
  const auto missing = blobs_.FindMissing(context, digests);
  return missing.ok() && missing->empty();
}

}  // namespace kiln
