#include "tests/conformance/store_subject.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "storage/base/limits.h"
#include "storage/memory_store.h"
#include "storage/rocks_open.h"

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

}  // namespace

std::vector<StoreKind> AllStoreKinds() { return {{"Memory", BuildMemory}, {"Rocks", BuildRocks}}; }

}  // namespace kiln
