#include "storage/waiting_store.h"

#include <utility>
#include <vector>

#include "storage/base/log.h"
#include "storage/base/mutex.h"

namespace kiln {

WaitingStore::WaitingStore(std::unique_ptr<Store> meanwhile, std::string reason, Open open,
                           std::chrono::milliseconds interval)
    : open_(std::move(open)),
      interval_(interval),
      store_(std::move(meanwhile)),
      reason_(std::move(reason)),
      thread_([this] { Run(); }) {}

WaitingStore::~WaitingStore() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

absl::StatusOr<FoundBlob> WaitingStore::GetBlob(const CallContext& context, const Digest& digest) {
  return Readable()->GetBlob(context, digest);
}

absl::StatusOr<std::vector<Digest>> WaitingStore::FindMissing(const CallContext& context,
                                                              std::span<const Digest> digests) {
  return Readable()->FindMissing(context, digests);
}

absl::StatusOr<FoundArtifact> WaitingStore::Get(const CallContext& context, const Digest& key) {
  return Readable()->Get(context, key);
}

absl::Status WaitingStore::Put(const CallContext& context, const ArtifactRecord& record,
                               std::span<const Blob> blobs) {
  KILN_ASSIGN_OR_RETURN(const auto store, Writable());
  return store->Put(context, record, blobs);
}

absl::Status WaitingStore::Remove(const CallContext& context, const Digest& key) {
  KILN_ASSIGN_OR_RETURN(const auto store, Writable());
  return store->Remove(context, key);
}

absl::StatusOr<std::vector<FoundArtifact>> WaitingStore::Scan(const CallContext& context,
                                                              const std::optional<Digest>& after,
                                                              size_t limit) {
  return Readable()->Scan(context, after, limit);
}

absl::StatusOr<std::vector<FoundUsage>> WaitingStore::ScanUsages(const CallContext& context,
                                                                 const std::optional<Digest>& after,
                                                                 size_t limit) {
  return Readable()->ScanUsages(context, after, limit);
}

absl::Status WaitingStore::SetPinned(const CallContext& context, const Digest& key, bool pinned) {
  KILN_ASSIGN_OR_RETURN(const auto store, Writable());
  return store->SetPinned(context, key, pinned);
}

std::shared_ptr<Store> WaitingStore::Readable() const {
  MutexLock lock(mutex_);
  return store_;
}

absl::StatusOr<std::shared_ptr<Store>> WaitingStore::Writable() const {
  MutexLock lock(mutex_);
  if (reason_.empty()) return store_;
  return ResourceExhausted("not stored: {}", reason_);
}

std::string WaitingStore::Describe() const {
  const auto store = Writable();
  return store.ok() ? (*store)->Describe() : "waiting";
}

StoreStats WaitingStore::Stats() const {
  MutexLock lock(mutex_);
  const std::shared_ptr<Store> store = store_;
  const std::string reason = reason_;
  lock.Unlock();
  StoreStats stats = store->Stats();
  if (!reason.empty()) stats.degraded = reason;
  return stats;
}

void WaitingStore::CountUses(std::span<const UseCount> uses) { Readable()->CountUses(uses); }

absl::StatusOr<uint64_t> WaitingStore::CollectUnreferencedBlobs(const CallContext& context) {
  KILN_ASSIGN_OR_RETURN(const auto store, Writable());
  return store->CollectUnreferencedBlobs(context);
}

void WaitingStore::WaitUntilOpen() {
  MutexLock lock(mutex_);
  while (!reason_.empty()) changed_.Wait(mutex_);
}

void WaitingStore::Run() {
  MutexLock lock(mutex_);
  while (!reason_.empty()) {
    if (changed_.WaitFor(mutex_, interval_, [this]() KILN_REQUIRES(mutex_) { return stopping_; }))
      return;
    lock.Unlock();
    TryToOpen();
    lock.Lock();
  }
}

void WaitingStore::TryToOpen() {
  auto opened = open_();
  std::shared_ptr<Store> unused;  // destroyed without the lock
  MutexLock lock(mutex_);
  if (!opened.ok()) {
    std::string reason(Message(opened.status()));
    // Attempts on a full disk all fail alike and need no log line.
    if (!absl::IsResourceExhausted(opened.status()) && reason != reason_) {
      LogError("the store cannot be opened", {{"why", reason}});
    }
    reason_ = std::move(reason);
    return;
  }
  unused = std::exchange(store_, std::shared_ptr<Store>(*std::move(opened)));
  reason_.clear();
  LogInfo("the store takes artifacts again");
  changed_.NotifyAll();
}

}  // namespace kiln
