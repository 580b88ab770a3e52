#include "tests/conformance/store_subject.h"

#include <vector>

#include "storage/base/limits.h"
#include "storage/memory_store.h"

namespace kiln {
namespace {

constexpr uint64_t kRoomy = 64 * limits::kMiB;

void BuildMemory(StoreSubject& subject) {
  subject.store = std::make_unique<MemoryStore>(kRoomy, subject.clock);
}

}  // namespace

std::vector<StoreKind> AllStoreKinds() { return {{"Memory", BuildMemory}}; }

}  // namespace kiln
