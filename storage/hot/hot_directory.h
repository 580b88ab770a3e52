// Publishes artifacts as read-only files that clients open without an RPC.
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
#include "storage/artifact_publisher.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/lru_cache.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"
#include "storage/blob_store.h"
#include "storage/hot/hot_files.h"

namespace kiln {

struct HotDirectoryOptions {
  // Sum of the files' sizes. 0: nothing is published.
  uint64_t bytes_max = limits::kHotDirectoryBytesDefault;
  size_t files_max = limits::kHotFilesMax;
  // Evicts files to leave this much free on the file system.
  uint64_t free_bytes_min = limits::kHotFreeBytesMin;
};

// Gauges show the present, counters count since the directory was opened.
struct HotDirectoryStats {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t published = 0;
  uint64_t evicted = 0;   // to make room
  uint64_t failures = 0;  // artifacts that could not be published, or files not removed
};

// Mirrors the most recently used part of an index: document and final binary of each artifact
// (storage/hot/artifact_file.h). Hears of new and removed artifacts as a listener, and of hits
// through NoteUse and Publish. When full, removes the least recently used files. Readers with an
// open or mapped file keep it.
//
// A failure never fails a compile: failures are counted, and logged at most once a minute.
//
// Every user of the machine can read the files, so user cache entries are never published.
//
// Thread-safe. Blocks to write a file; NoteUse and Stats block on a short mutex only.
class HotDirectory final : public ArtifactPublisher {
 public:
  // Keeps the undamaged files of an earlier daemon, oldest first, and removes everything else.
  // Reads all files. Errors of HotFiles::Open and Load. `clock` must outlive the directory.
  static absl::StatusOr<std::unique_ptr<HotDirectory>> Open(const std::string& path,
                                                            const HotDirectoryOptions& options,
                                                            const Clock& clock);

  void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) override;
  void OnRemove(const Digest& key) override;

  // Whether the artifact is published. Counts as a use.
  bool NoteUse(const Digest& key) override;
  // Publishes an artifact that was found in the store. Does nothing where the key is published, or
  // changed so recently that the found artifact may be out of date. Writes a file, so answer the
  // hit before. REQUIRES: `blobs` holds the final binary.
  void Publish(const ArtifactRecord& record, std::span<const Blob> blobs) override;

  // For use after a start: removes files that the store does not have, and publishes the most
  // recently used artifacts, up to the bounds. Other calls may run meanwhile. `index` and `blobs`
  // belong to the durable store, so that reading everything does not flush the tier above. Calls
  // `should_stop` between artifacts, and `on_found` for every record of the index.
  //
  // CANCELLED where `should_stop` returned true. Other errors are those of Scan. Leaves out
  // artifacts whose blobs cannot be read.
  absl::Status Rebuild(ArtifactIndex& index, BlobStore& blobs,
                       const std::function<bool()>& should_stop,
                       const std::function<void(const FoundArtifact&)>& on_found);

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
      ArtifactIndex& index, const std::function<bool()>& should_stop,
      const std::function<void(const FoundArtifact&)>& on_found);
  absl::Status PublishFrom(ArtifactIndex& index, BlobStore& blobs, const Digest& key);

  bool HasJustChanged(const Digest& key) const KILN_REQUIRES(mutex_);
  bool IsOutdatedHit(const Digest& key, Source source) const KILN_REQUIRES(mutex_);
  absl::Status MakeRoom(const Digest& key, uint64_t size_bytes) KILN_REQUIRES(mutex_);
  absl::Status EvictOldest() KILN_REQUIRES(mutex_);
  absl::Status RemoveFile(const Digest& key) KILN_REQUIRES(mutex_);

  HotFiles files_;
  const HotDirectoryOptions options_;
  const Clock& clock_;

  // Held while files appear and disappear, so that entries and files agree. Not held while a file
  // is written.
  mutable Mutex mutex_;
  // Unbounded, since an eviction has to remove the file.
  LruCache<Published> entries_ KILN_GUARDED_BY(mutex_){SIZE_MAX, SIZE_MAX};
  // When a key changed last. Outlives every hit that was looked up before the change.
  LruCache<SteadyTime> changes_ KILN_GUARDED_BY(mutex_){limits::kRecentChangesMax, SIZE_MAX};
  HotDirectoryStats counters_ KILN_GUARDED_BY(mutex_);  // without the gauges
  std::optional<SteadyTime> last_warning_ KILN_GUARDED_BY(mutex_);
  uint64_t unreported_failures_ KILN_GUARDED_BY(mutex_) = 0;

  Counter failures_{"hot_failures", "Artifacts not published, or files not removed."};
  Gauge bytes_gauge_{"hot_bytes", "What the files in the hot directory occupy.",
                     [this] { return Stats().bytes; }};
  Gauge files_gauge_{"hot_files", "Files in the hot directory.", [this] { return Stats().files; }};
};

}  // namespace kiln
