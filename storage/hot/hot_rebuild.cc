// HotDirectory::Rebuild: one pass over the index decides what should be published, a second one
// over that publishes it.
#include <algorithm>
#include <queue>
#include <tuple>
#include <vector>

#include "storage/base/log.h"
#include "storage/hot/hot_directory.h"
#include "storage/index_peek.h"
#include "storage/user_cache_record.h"

namespace kiln {
namespace {

// Header, stage table and padding of an artifact file, about.
constexpr uint64_t kFileOverheadBytes = 256;

struct Candidate {
  int64_t last_use_unix_ms = 0;
  uint64_t hits = 0;
  Digest key;
  uint64_t size_bytes = 0;
};

// On top of the queue is what was used least recently.
struct UsedMoreRecently {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return std::tie(a.last_use_unix_ms, a.hits, a.key) >
           std::tie(b.last_use_unix_ms, b.hits, b.key);
  }
};

// Of all that it is offered, what was used most recently and fits into the bounds.
class Selection {
 public:
  Selection(uint64_t bytes_max, size_t files_max) : bytes_max_(bytes_max), files_max_(files_max) {}

  void Offer(const FoundArtifact& found) {
    const ArtifactRecord& record = *found.record;
    if (record.stages.empty() || IsUserCacheKey(record.key)) return;
    const uint64_t size =
        record.stages.back().size_bytes + record.document.size() + kFileOverheadBytes;
    if (size > bytes_max_) return;
    chosen_.push({found.usage.last_use_unix_ms, found.usage.hits, record.key, size});
    bytes_ += size;
    while (bytes_ > bytes_max_ || chosen_.size() > files_max_) {
      bytes_ -= chosen_.top().size_bytes;
      chosen_.pop();
    }
  }

  // Least recently used first, so that what is published last is what stays longest.
  std::vector<Digest> Take() {
    std::vector<Digest> keys;
    for (; !chosen_.empty(); chosen_.pop()) keys.push_back(chosen_.top().key);
    return keys;
  }

 private:
  const uint64_t bytes_max_;
  const size_t files_max_;
  std::priority_queue<Candidate, std::vector<Candidate>, UsedMoreRecently> chosen_;
  uint64_t bytes_ = 0;
};

// Entries, in the order of keys, that an index turns out not to have.
class Leftovers {
 public:
  explicit Leftovers(std::vector<HotEntry> sorted) : entries_(std::move(sorted)) {}

  // REQUIRES: called for all records, in the order of keys.
  void Pass(const ArtifactRecord& record, std::vector<HotEntry>& left) {
    PassUntil(record.key, left);
    if (next_ == entries_.size() || entries_[next_].key != record.key) return;
    const HotEntry& entry = entries_[next_++];
    if (record.stages.empty() || record.stages.back().digest != entry.binary) {
      left.push_back(entry);
    }
  }

  void PassRest(std::vector<HotEntry>& left) {
    left.insert(left.end(), entries_.begin() + static_cast<ptrdiff_t>(next_), entries_.end());
    next_ = entries_.size();
  }

 private:
  void PassUntil(const Digest& key, std::vector<HotEntry>& left) {
    while (next_ < entries_.size() && entries_[next_].key < key) left.push_back(entries_[next_++]);
  }

  const std::vector<HotEntry> entries_;
  size_t next_ = 0;
};

absl::Status Stopped() { return Cancelled("filling the hot directory was stopped"); }

CallContext BackgroundContext() {
  CallContext context;
  context.priority = Priority::kBackground;
  return context;
}

}  // namespace

absl::Status HotDirectory::Rebuild(ArtifactIndex& index, BlobStore& blobs,
                                   const std::function<bool()>& should_stop) {
  KILN_ASSIGN_OR_RETURN(const auto chosen, DropLeftoversAndChoose(index, should_stop));
  for (const Digest& key : chosen) {
    if (should_stop()) return Stopped();
    if (NoteUse(key)) continue;
    KILN_RETURN_IF_ERROR(PublishFrom(index, blobs, key));
  }
  const HotDirectoryStats now = Stats();
  LogInfo("hot directory filled", {{"path", path()}, {"files", now.files}, {"bytes", now.bytes}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Digest>> HotDirectory::DropLeftoversAndChoose(
    ArtifactIndex& index, const std::function<bool()>& should_stop) {
  Selection selection(options_.bytes_max, options_.files_max);
  Leftovers leftovers(SortedEntries());
  std::vector<HotEntry> left;
  std::optional<Digest> after;
  while (true) {
    if (should_stop()) return Stopped();
    KILN_ASSIGN_OR_RETURN(const auto page,
                          index.Scan(BackgroundContext(), after, limits::kListPageMax));
    if (page.empty()) break;
    for (const FoundArtifact& found : page) {
      leftovers.Pass(*found.record, left);
      selection.Offer(found);
    }
    after = page.back().record->key;
  }
  leftovers.PassRest(left);
  for (const HotEntry& entry : left) DropUnchanged(entry);
  return selection.Take();
}

absl::Status HotDirectory::PublishFrom(ArtifactIndex& index, BlobStore& blobs, const Digest& key) {
  const CallContext context = BackgroundContext();
  KILN_ASSIGN_OR_RETURN(const auto found, Peek(context, index, key));
  if (!found || found->record->stages.empty()) return absl::OkStatus();
  const auto binary = blobs.Get(context, found->record->stages.back().digest);
  // Evicted meanwhile, or damaged: then the next request finds out.
  if (!binary.ok()) return absl::OkStatus();
  Publish(*found->record, {&binary->blob, 1});
  return absl::OkStatus();
}

}  // namespace kiln
