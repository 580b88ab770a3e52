// What a user's own processes keep here for one another.
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

// A file of an entry. Its name means nothing here.
struct UserCacheFile {
  std::string name;
  std::string content;
  // What the content is where it is the output of a stored artifact, so that it need be neither
  // sent nor kept twice. The entry is then only as good as that: once the artifact is gone, or has
  // another output, there is no entry either.
  std::optional<ArtifactOutput> output;
  // Of the content. In a put: all zeroes where it is not known, which is only allowed without
  // `output`.
  Digest digest;
};

// Files under opaque keys, each user's apart: the daemon does not understand the keys, so it cannot
// know whether what is under one is right. Whoever wrote it must therefore be whoever reads it: the
// uid is part of the key that the index sees, and is the kernel's word, never the client's
// (docs/adr/0026-entries-of-an-own-namespace.md).
//
// Entries are records of the index like any other and are evicted like them. Besides, no user holds
// more than the quota's limits. Contents never come out damaged: blobs are checked.
//
// Thread-safe. Blocks as the store does.
class UserCache {
 public:
  // All of them must outlive the entries. REQUIRES: `quota` listens to what is under `index`.
  UserCache(ArtifactIndex& index, BlobStore& blobs, UserQuota& quota, const Clock& clock)
      : index_(index), blobs_(blobs), quota_(quota), clock_(clock) {}

  // Files in the order in which they were put. NOT_FOUND where there is none that is whole.
  // INVALID_ARGUMENT for a key that is empty or too long. Counts as a use, of artifacts too.
  absl::StatusOr<std::vector<UserCacheFile>> Get(const CallContext& context, std::string_view key);

  // In place of what the key had. INVALID_ARGUMENT where a limit is exceeded, a name empty or there
  // twice, or a content not what its digest says; NOT_FOUND where an artifact does not have such an
  // output (any more); RESOURCE_EXHAUSTED as ArtifactIndex::Put.
  absl::Status Put(const CallContext& context, std::string_view key,
                   std::vector<UserCacheFile> files);

 private:
  absl::StatusOr<std::vector<UserCacheFile>> ReadFiles(const CallContext& context,
                                                       const ArtifactRecord& stored,
                                                       const UserCacheRecord& record);
  absl::StatusOr<UserCacheRecord> Describe(const CallContext& context, std::string_view key,
                                           const std::vector<UserCacheFile>& files);
  bool IsStored(const CallContext& context, const Digest& key, const std::string& document);

  ArtifactIndex& index_;
  BlobStore& blobs_;
  UserQuota& quota_;
  const Clock& clock_;
};

}  // namespace kiln
