// What the storage conformance suites run over: a store with everything that it needs to live.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "storage/store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/temp_directory.h"

namespace kiln {

// Members go in reverse order: the store before what it stands on.
struct StoreSubject {
  FakeClock clock;
  TempDirectory directory;
  std::unique_ptr<Store> store;
};

struct StoreKind {
  std::string name;
  std::function<void(StoreSubject&)> build;

  friend void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }
};

// Every implementation and the compositions that the daemon uses.
std::vector<StoreKind> AllStoreKinds();

class StoreConformance : public testing::TestWithParam<StoreKind> {
 protected:
  StoreConformance() { GetParam().build(subject_); }

  FakeClock& clock() { return subject_.clock; }
  Store& store() { return *subject_.store; }
  BlobStore& blobs() { return subject_.store->blobs(); }
  ArtifactIndex& index() { return subject_.store->index(); }

  CallContext context_;

 private:
  StoreSubject subject_;
};

inline std::string StoreKindName(const testing::TestParamInfo<StoreKind>& info) {
  return info.param.name;
}

}  // namespace kiln
