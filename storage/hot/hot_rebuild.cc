// HotDirectory::Rebuild: one pass over the index chooses the artifacts, a second pass publishes
// them.
#include <functional>
#include <queue>
#include <vector>

#include "storage/base/log.h"
#include "storage/hot/hot_directory.h"
#include "storage/lookup_without_use.h"

namespace kiln {
namespace {

// Header, stage table and padding of an artifact file, about.
constexpr uint64_t kFileOverheadBytes = 256;

// Ordered by its members, so the least recently used candidate is the least one.
struct Candidate {
  int64_t last_use_unix_ms = 0;
  uint64_t hits = 0;
  Digest key;
  uint64_t size_bytes = 0;

  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

// Keeps the most recently used of all offered artifacts that fit into the bounds.
class Selection {
 public:
  Selection(uint64_t bytes_max, size_t files_max) : bytes_max_(bytes_max), files_max_(files_max) {}

  void Offer(const FoundArtifact& found) {
    const ArtifactRecord& record = *found.record;
    if (record.stages.empty()) return;
    uint64_t size = record.document.size() + record.description.size() + kFileOverheadBytes;
    for (const StageReference& stage : record.stages) size += stage.size_bytes;
    if (size > bytes_max_) return;
    chosen_.push({found.usage.last_use_unix_ms, found.usage.hits, record.key, size});
    bytes_ += size;
    while (bytes_ > bytes_max_ || chosen_.size() > files_max_) {
      bytes_ -= chosen_.top().size_bytes;
      chosen_.pop();
    }
  }

  // Least recently used first: the artifact that is published last stays longest.
  std::vector<Digest> Take() {
    std::vector<Digest> keys;
    for (; !chosen_.empty(); chosen_.pop()) keys.push_back(chosen_.top().key);
    return keys;
  }

 private:
  const uint64_t bytes_max_;
  const size_t files_max_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> chosen_;  // least on top
  uint64_t bytes_ = 0;
};

absl::Status Stopped() { return Cancelled("filling the hot directory was stopped"); }

}  // namespace

absl::Status HotDirectory::Rebuild(ArtifactIndex& index, BlobStore& blobs,
                                   const std::function<bool()>& should_stop,
                                   const std::function<void(const FoundArtifact&)>& on_found) {
  KILN_ASSIGN_OR_RETURN(const auto chosen, Choose(index, should_stop, on_found));
  for (const Digest& key : chosen) {
    if (should_stop()) return Stopped();
    KILN_RETURN_IF_ERROR(PublishFrom(index, blobs, key));
  }
  const HotDirectoryStats now = Stats();
  LogInfo("hot directory filled", {{"path", path()}, {"files", now.files}, {"bytes", now.bytes}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Digest>> HotDirectory::Choose(
    ArtifactIndex& index, const std::function<bool()>& should_stop,
    const std::function<void(const FoundArtifact&)>& on_found) {
  Selection selection(options_.bytes_max, options_.files_max);
  std::optional<Digest> after;
  while (true) {
    if (should_stop()) return Stopped();
    KILN_ASSIGN_OR_RETURN(const auto page, index.Scan({}, after, limits::kListPageMax));
    if (page.empty()) break;
    for (const FoundArtifact& found : page) {
      selection.Offer(found);
      on_found(found);
    }
    after = page.back().record->key;
  }
  return selection.Take();
}

absl::Status HotDirectory::PublishFrom(ArtifactIndex& index, BlobStore& blobs, const Digest& key) {
  if (options_.bytes_max == 0 || NoteUse(key)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const auto found, LookupWithoutUse({}, index, key));
  if (!found) return absl::OkStatus();
  std::vector<Blob> contents;
  for (const StageReference& stage : found->record->stages) {
    if (stage.stage == kRequestStage) continue;
    // Evicted meanwhile, or damaged: the next request handles that.
    if (const auto blob = blobs.GetBlob({}, stage.digest); blob.ok()) {
      contents.push_back(blob->blob);
    }
  }
  if (FindFinalBinary(*found->record, contents) != nullptr) Publish(*found->record, contents);
  return absl::OkStatus();
}

}  // namespace kiln
