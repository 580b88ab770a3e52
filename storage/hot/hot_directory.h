// Publishes artifacts as read-only files that clients open without an RPC.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/artifact_index.h"
#include "storage/base/clock.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "storage/base/lru_cache.h"
#include "storage/base/metrics.h"
#include "storage/base/mutex.h"
#include "storage/blob_store.h"

namespace kiln {

struct HotDirectoryOptions {
  // Sum of the files' sizes. 0: nothing is published.
  uint64_t bytes_max = limits::kHotDirectoryBytesDefault;
  size_t files_max = limits::kHotFilesMax;
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
// (storage/hot/artifact_file.h) as <path>/<2 hex digits>/<64 hex digits of the key>, its earlier
// stages in a file of the same name with ".stages" behind it. Hears of new and removed artifacts as
// a listener, and of hits through NoteUse and PublishFrom. When full, removes the least recently
// used files.
//
// Files appear by rename and never change, so a reader keeps an open or mapped file that is
// replaced or removed. REQUIRES: nobody else may write to the directory or those above it, and one
// process at a time uses it.
//
// A failure never fails a compile: failures are counted, and logged at most once a minute.
//
// Every user of the machine can read the files. That of a user cache entry only its user can, by
// an access list: where the file system has none, only entries of the daemon's own user are
// published.
//
// Thread-safe. Blocks to write a file; NoteUse and Stats block on a short mutex only.
class HotDirectory final : public ArtifactListener {
 public:
  // Creates the directory where it is missing; its parent must exist. Removes the files of an
  // earlier daemon: Rebuild publishes anew. ALREADY_EXISTS where the path is no directory,
  // FAILED_PRECONDITION where it belongs to another user. `filesystem` and `clock` must outlive the
  // directory.
  static absl::StatusOr<std::unique_ptr<HotDirectory>> Open(const std::string& path,
                                                            const HotDirectoryOptions& options,
                                                            Filesystem& filesystem,
                                                            const Clock& clock);

  void OnPut(const ArtifactRecord& record, std::span<const Blob> blobs) override;
  void OnRemove(const Digest& key) override;

  // Whether the artifact is published. Counts as a use.
  bool NoteUse(const Digest& key);
  // Publishes an artifact that was found in the store. Does nothing where the key is published, or
  // changed so recently that the found artifact may be out of date. Writes a file, so answer the
  // hit before. REQUIRES: `blobs` holds the final binary. Other stages that are not there are not
  // published.
  void Publish(const ArtifactRecord& record, std::span<const Blob> blobs);

  // Publishes a file of the daemon's own, `name`, in place of the one before. Where that fails, or
  // nothing is published here, there is no such file afterwards: readers ask the daemon. REQUIRES:
  // `name` is no shard's; one call at a time.
  void PublishFile(std::string_view name, std::string_view content);

  // For use after a start: publishes the most recently used artifacts, up to the bounds. Other
  // calls may run meanwhile. `index` and `blobs` belong to the durable store, so that reading
  // everything does not flush the tier above. Calls `should_stop` between artifacts, and `on_found`
  // for every record of the index.
  //
  // CANCELLED where `should_stop` returned true. Other errors are those of Scan. Leaves out
  // artifacts whose blobs cannot be read.
  absl::Status Rebuild(ArtifactIndex& index, BlobStore& blobs,
                       const std::function<bool()>& should_stop,
                       const std::function<void(const FoundArtifact&)>& on_found);

  // Publishes what `index` and `blobs` hold under `key`, the stored bytes as they are. Does nothing
  // where an artifact is published, evicted meanwhile or cannot be read. Errors of Scan.
  absl::Status PublishFrom(ArtifactIndex& index, BlobStore& blobs, const Digest& key);

  HotDirectoryStats Stats() const;
  const std::string& path() const { return path_; }

 private:
  enum class Source { kPut, kHit };

  HotDirectory(std::string path, const HotDirectoryOptions& options, Filesystem& filesystem,
               const Clock& clock)
      : path_(std::move(path)), options_(options), filesystem_(filesystem), clock_(clock) {}

  std::string ShardOf(const Digest& key) const;
  std::string PathOf(const Digest& key) const;
  std::string UnpublishedPath();
  absl::Status Replace(const std::string& path, std::string_view content);
  absl::Status Write(const ArtifactRecord& record, std::span<const Blob> blobs, Source source);
  // Gives written files their published names, unless they hold an outdated hit.
  absl::Status MoveIn(const std::string& unpublished, uint64_t size_bytes, const Digest& key,
                      Source source);
  absl::Status LeaveFree(uint64_t needed_bytes);
  void Drop(const Digest& key);
  void CountFailure(const absl::Status& status);

  absl::StatusOr<std::vector<Digest>> Choose(
      ArtifactIndex& index, const std::function<bool()>& should_stop,
      const std::function<void(const FoundArtifact&)>& on_found);

  // Whether a hit was looked up before the latest change of its key, or may have been.
  bool IsOutdatedHit(const Digest& key, Source source) const;
  bool Fits(const Digest& key, uint64_t size_bytes);
  // Returns the size of the file; 0: there was none.
  absl::StatusOr<uint64_t> EvictOldest() KILN_REQUIRES(files_mutex_);
  absl::Status RemoveFile(const Digest& key) KILN_REQUIRES(files_mutex_);

  const std::string path_;
  const HotDirectoryOptions options_;
  Filesystem& filesystem_;
  const Clock& clock_;
  std::atomic<uint64_t> unpublished_files_ = 0;  // written so far, for their names

  // Held while files appear and disappear, so that entries and files agree. Not held while a file
  // is written.
  Mutex files_mutex_;
  // Taken after files_mutex_. Never held during a system call: every hit may wait for it.
  mutable Mutex mutex_;
  // The sizes of files. Unbounded, since an eviction has to remove the file.
  LruCache<uint64_t> entries_ KILN_GUARDED_BY(mutex_){SIZE_MAX, SIZE_MAX};
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
