// User cache entries as records of the index (storage/format.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/base/users.h"

namespace kiln {

// The index's key for a user's `key`: a SHA-256 over both, whose last eight bytes mark a user cache
// entry. Differs from every other user's keys and from compile keys.
Digest UserCacheKey(uid_t uid, std::string_view key);
// Whether `key` is a user cache key. One of 2^64 compile keys looks like one.
bool IsUserCacheKey(const Digest& key);

// The stage of a stored artifact whose output a file is.
struct ArtifactOutput {
  Digest artifact;
  std::string stage;

  friend bool operator==(const ArtifactOutput&, const ArtifactOutput&) = default;
};

// An entry without its contents, as the record's document stores it.
struct UserCacheRecord {
  struct File {
    std::string name;
    Digest digest;
    uint64_t size_bytes = 0;
    // None: the content is in the entry's own blob, behind the contents of earlier files.
    std::optional<ArtifactOutput> output;

    friend bool operator==(const File&, const File&) = default;
  };

  uid_t uid = 0;
  std::string key;
  std::vector<File> files;

  friend bool operator==(const UserCacheRecord&, const UserCacheRecord&) = default;
};

// The stage whose blob holds the contents.
inline constexpr std::string_view kUserCacheStage = "own";
// The blob begins with random bytes, so that nobody can guess its digest: the daemon gives a blob
// to every user who names its digest.
inline constexpr size_t kUserCacheSaltBytes = 32;

std::string EncodeUserCacheRecord(const UserCacheRecord& record);
// `document` may be anything. DATA_LOSS where it is no such document.
absl::StatusOr<UserCacheRecord> DecodeUserCacheRecord(std::string_view document);

}  // namespace kiln
