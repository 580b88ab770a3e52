// Publishes artifacts as read-only files that clients open without asking the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/lru_cache.h"
#include "storage/base/mutex.h"
#include "storage/blob_store.h"
#include "storage/hot/hot_files.h"
#include "storage/hot/recent_changes.h"

namespace kiln {

struct HotDirectoryOptions {
  // Sum of the files' sizes. 0: nothing is published.
  uint64_t bytes_max = limits::kHotDirectoryBytesDefault;
  size_t files_max = limits::kHotFilesMax;
  // Where less would be left free on the file system, the directory gives some of its own back.
  uint64_t free_bytes_min = limits::kHotFreeBytesMin;
};

// Gauges are of now, counters since the directory was opened.
struct HotDirectoryStats {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t published = 0;
  uint64_t evicted = 0;   // to make room
  uint64_t failures = 0;  // artifacts that could not be published, or files not removed
};

// A mirror of the most recently used part of an index: document and final binary of each artifact
// (storage/hot/artifact_file.h). Hears of new and removed artifacts as a listener, of hits through
// NoteUse and Publish. When full it removes what was published or used least recently; whoever has
// that open or mapped is not disturbed.
//
// It is only a shortcut, so nothing here ever fails a compile: failures are counted and logged, at
// most once a minute.
//
// Everybody on the machine reads it, so entries of users' own namespaces are never published.
//
// Thread-safe. Blocks for the writing of a file; NoteUse and Stats only on a short mutex.
class HotDirectory final : public ArtifactListener {
 public:
  // Takes over the files of an earlier daemon that are whole, oldest first, and removes everything
  // else. Reads all of them. Errors of HotFiles::Open and Load. `clock` must outlive the directory.
  static absl::StatusOr<std::unique_ptr<HotDirectory>> Open(const std::string& path,
                                                            const HotDirectoryOptions& options,
                                                            const Clock& clock);

  void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) override;
  void OnRemove(const Digest& key) override;

  // Whether the artifact is published; it then counts as just used.
  bool NoteUse(const Digest& key);
  // For an artifact that was found in the store. Does nothing where it is published already, and
  // where the key changed since the look-up could have happened: what was found may be out of date.
  // Writes a file, so a hit is answered first.
  // REQUIRES: `blobs` holds the final binary.
  void Publish(const ArtifactRecord& record, std::span<const Blob> blobs);

  // Brings the directory in line with a store, for use after a start: removes what the store does
  // not have, publishes what was used most recently, up to the bounds. Goes on beside other work.
  // `index` and `blobs` are those of the durable store, so that reading it all does not push
  // everything out of the tier above. `should_stop` is asked between artifacts.
  //
  // CANCELLED where it said so; otherwise errors of Scan. Blobs that cannot be read are left out.
  absl::Status Rebuild(ArtifactIndex& index, BlobStore& blobs,
                       const std::function<bool()>& should_stop);

  HotDirectoryStats Stats() const;
  const std::string& path() const { return files_.path(); }

 private:
  enum class Source { kPut, kHit };
  struct Published {
    Digest binary;  // content of the published stage
    uint64_t size_bytes = 0;
  };

  HotDirectory(HotFiles files, const HotDirectoryOptions& options, const Clock& clock)
      : files_(std::move(files)), options_(options), clock_(clock) {}

  absl::Status Load();
  absl::Status Write(const ArtifactRecord& record, std::span<const Blob> blobs, Source source);
  absl::Status LeaveFree(uint64_t needed_bytes);
  void Drop(const Digest& key);
  // Drops the file unless its artifact changed since `binary` was published.
  void DropUnchanged(const Digest& key, const Digest& binary);
  void CountFailure(const absl::Status& status);
  std::unordered_map<Digest, Digest, DigestHash> PublishedBinaries() const;

  absl::StatusOr<std::vector<Digest>> DropLeftoversAndChoose(
      ArtifactIndex& index, const std::function<bool()>& should_stop);
  absl::Status PublishFrom(ArtifactIndex& index, BlobStore& blobs, const Digest& key);

  bool IsOutdatedHit(const Digest& key, Source source) const KILN_REQUIRES(mutex_);
  absl::Status MakeRoom(const Digest& key, uint64_t size_bytes) KILN_REQUIRES(mutex_);
  absl::Status EvictOldest() KILN_REQUIRES(mutex_);
  absl::Status RemoveFile(const Digest& key) KILN_REQUIRES(mutex_);

  HotFiles files_;
  const HotDirectoryOptions options_;
  const Clock& clock_;

  // Held while files appear and disappear, so that entries and files agree, but not while one is
  // written.
  mutable Mutex mutex_;
  // Unbounded, since an eviction has to remove the file.
  LruCache<Published> entries_ KILN_GUARDED_BY(mutex_){SIZE_MAX, SIZE_MAX};
  RecentChanges changes_ KILN_GUARDED_BY(mutex_);
  HotDirectoryStats counters_ KILN_GUARDED_BY(mutex_);  // but for the gauges
  std::optional<SteadyTime> last_warning_ KILN_GUARDED_BY(mutex_);
  uint64_t unreported_failures_ KILN_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln
