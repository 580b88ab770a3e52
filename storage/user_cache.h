// Files that a user's processes keep for one another: the user cache.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/blob_store.h"
#include "storage/user_cache_record.h"
#include "storage/user_quota.h"

namespace kiln {

// A file of an entry. The cache does not interpret the name.
struct UserCacheFile {
  std::string name;
  std::string content;
  // The stage of a stored artifact whose output is the file's content. Such content is neither sent
  // nor stored twice. The entry ends with the artifact, or with this output of the artifact.
  std::optional<ArtifactOutput> output;
  // The digest of the content. All zeroes in a put: unknown, which `output` does not allow.
  Digest digest;
};

// Maps opaque keys to files, for each user apart. The daemon does not understand the keys, so it
// cannot check the files: only the user who wrote an entry reads it. The uid is part of the index's
// key, and comes from the kernel, never from the client
// (docs/adr/0026-entries-of-an-own-namespace.md).
//
// Entries are records of the index and are evicted like artifacts. Besides, UserQuota limits each
// user. Blobs are checked, so no content comes back damaged.
//
// Thread-safe. Blocks as the store does.
class UserCache {
 public:
  // All arguments must outlive the cache. REQUIRES: `quota` listens to `index`.
  UserCache(ArtifactIndex& index, BlobStore& blobs, UserQuota& quota, const Clock& clock)
      : index_(index), blobs_(blobs), quota_(quota), clock_(clock) {}

  // Files in the order of the put. NOT_FOUND where there is no complete entry. INVALID_ARGUMENT for
  // a key that is empty or too long. Counts as a use of the entry and of its artifacts.
  absl::StatusOr<std::vector<UserCacheFile>> Get(const CallContext& context, std::string_view key);

  // Whether there is an entry, whole as far as the index knows. Counts as a use of the entry.
  bool Has(const CallContext& context, std::string_view key);

  // The entry of a record that was read already, without the contents of outputs. DATA_LOSS. Counts
  // as no use.
  absl::StatusOr<std::vector<UserCacheFile>> ReadContents(const CallContext& context,
                                                          const ArtifactRecord& stored);

  // Counts a use of an entry that its user has read elsewhere. `id` is its key in the index.
  void NoteUse(const Digest& id) { quota_.Touch(id); }

  // Replaces the key's entry. INVALID_ARGUMENT where a limit is exceeded, a name is empty or occurs
  // twice, or a content does not match its digest. NOT_FOUND where an artifact has no such output.
  // RESOURCE_EXHAUSTED as ArtifactIndex::Put.
  absl::Status Put(const CallContext& context, std::string_view key,
                   std::vector<UserCacheFile> files);

 private:
  absl::Status AddOutputs(const CallContext& context, std::vector<UserCacheFile>& files);
  absl::StatusOr<UserCacheRecord> Describe(const CallContext& context, std::string_view key,
                                           const std::vector<UserCacheFile>& files);
  bool IsStored(const CallContext& context, const Digest& key, const std::string& document);
  bool HasContents(const CallContext& context, const ArtifactRecord& stored);

  ArtifactIndex& index_;
  BlobStore& blobs_;
  UserQuota& quota_;
  const Clock& clock_;
};

}  // namespace kiln
