// How entries of users' own namespaces stand in the index, beside artifacts (storage/format.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace kiln {

// The index's key for what a user calls `key`. No other user's and no compile key is the same: it
// is a SHA-256 over both, and its last eight bytes say what it is.
Digest UserCacheKey(uid_t uid, std::string_view key);
// Whether it is such a key, of whatever user. A compile key looks like one once in 2^64 times.
bool IsUserCacheKey(const Digest& key);

// Which stage of which stored artifact a file is the output of.
struct ArtifactOutput {
  Digest artifact;
  std::string stage;

  friend bool operator==(const ArtifactOutput&, const ArtifactOutput&) = default;
};

// An entry without its contents: what the document of its record says.
struct UserCacheRecord {
  struct File {
    std::string name;
    Digest digest;
    uint64_t size_bytes = 0;
    // None: the content is in the entry's own blob, behind those of the files before it.
    std::optional<ArtifactOutput> output;

    friend bool operator==(const File&, const File&) = default;
  };

  uid_t uid = 0;
  std::string key;
  std::vector<File> files;

  friend bool operator==(const UserCacheRecord&, const UserCacheRecord&) = default;
};

// The stage under which a record names the blob with the contents.
inline constexpr std::string_view kUserCacheStage = "own";
// That blob begins with so many random bytes, so that nobody finds it who has not read it: blobs
// are given to whoever names their digest.
inline constexpr size_t kUserCacheSaltBytes = 32;

std::string EncodeUserCacheRecord(const UserCacheRecord& record);
// Bytes that may be anything. DATA_LOSS where they are no such document.
absl::StatusOr<UserCacheRecord> DecodeUserCacheRecord(std::string_view document);

}  // namespace kiln
