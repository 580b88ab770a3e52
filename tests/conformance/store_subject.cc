#include "tests/conformance/store_subject.h"

#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "storage/notifying_store.h"
#include "storage/quota_store.h"
#include "storage/rocks/rocks_open.h"
#include "storage/tiered_store.h"
#include "storage/waiting_store.h"

namespace kiln {
namespace {

constexpr uint64_t kRoomy = 64 * limits::kMiB;

void BuildMemory(StoreSubject& subject) {
  subject.store = std::make_unique<MemoryStore>(kRoomy, subject.clock);
}

std::unique_ptr<Store> OpenRocks(StoreSubject& subject) {
  auto opened = OpenRocksStore({.path = subject.directory.File("store"), .expected_bytes = kRoomy},
                               OsFilesystem(), subject.clock);
  if (!opened.ok()) {
    ADD_FAILURE() << opened.status();
    std::abort();
  }
  return std::move(opened->store);
}

void BuildRocks(StoreSubject& subject) { subject.store = OpenRocks(subject); }

std::unique_ptr<Store> WithQuota(std::unique_ptr<Store> store, StoreSubject& subject) {
  const QuotaOptions options = {
      .bytes_max = kRoomy, .free_disk_bytes_min = 0, .disk_path = subject.directory.path()};
  return std::make_unique<QuotaStore>(std::move(store), options, OsFilesystem(), subject.clock);
}

void BuildQuotaOverMemory(StoreSubject& subject) {
  subject.store = WithQuota(std::make_unique<MemoryStore>(kRoomy, subject.clock), subject);
}

void BuildTieredMemory(StoreSubject& subject) {
  subject.store =
      std::make_unique<TieredStore>(std::make_unique<MemoryStore>(kRoomy, subject.clock),
                                    std::make_unique<MemoryStore>(kRoomy, subject.clock));
}

// A fast tier too small for anything: every put and promotion fails.
void BuildTieredUnderUselessMemory(StoreSubject& subject) {
  subject.store =
      std::make_unique<TieredStore>(std::make_unique<MemoryStore>(1, subject.clock),
                                    std::make_unique<MemoryStore>(kRoomy, subject.clock));
}

// After its disk was full for a while.
void BuildWaitedRocks(StoreSubject& subject) {
  // A thread of the waiting store's asks for it, and the store is to be opened before there are
  // any.
  const auto opened = std::make_shared<std::unique_ptr<Store>>(OpenRocks(subject));
  auto store = std::make_unique<WaitingStore>(
      std::make_unique<MemoryStore>(kRoomy, subject.clock), "the disk is full",
      [opened] { return std::move(*opened); }, std::chrono::milliseconds(0));
  store->WaitUntilOpen();
  subject.store = std::move(store);
}

// As the daemon has it, without listeners.
void BuildDaemons(StoreSubject& subject) {
  auto notifying =
      std::make_unique<NotifyingStore>(OpenRocks(subject), std::vector<ArtifactListener*>());
  subject.store =
      std::make_unique<TieredStore>(std::make_unique<MemoryStore>(kRoomy, subject.clock),
                                    WithQuota(std::move(notifying), subject));
}

}  // namespace

std::vector<StoreKind> AllStoreKinds() {
  return {{"Memory", BuildMemory},
          {"Rocks", BuildRocks},
          {"WaitedRocks", BuildWaitedRocks},
          {"QuotaOverMemory", BuildQuotaOverMemory},
          {"TieredMemory", BuildTieredMemory},
          {"TieredUnderUselessMemory", BuildTieredUnderUselessMemory},
          {"AsTheDaemonHasIt", BuildDaemons}};
}

}  // namespace kiln
