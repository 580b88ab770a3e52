#include "storage/lookup_without_use.h"

#include <gtest/gtest.h>

#include "storage/memory_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"

namespace kiln {
namespace {

// A key of 32 bytes, all of them zero but for the last two.
Digest LowKey(char last_but_one, char last) {
  std::string bytes(Digest::kSizeBytes, '\0');
  bytes[Digest::kSizeBytes - 2] = last_but_one;
  bytes[Digest::kSizeBytes - 1] = last;
  return *Digest::FromBytes(bytes);
}

class LookupWithoutUseTest : public testing::Test {
 protected:
  void Put(const Digest& key) {
    MadeArtifact made = MakeArtifact("any");
    made.record.key = key;
    ASSERT_TRUE(store_.index().Put(context_, made.record, made.blobs).ok());
  }
  bool Finds(const Digest& key) {
    const auto found = LookupWithoutUse(context_, store_.index(), key);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() && *found && (*found)->record->key == key;
  }

  CallContext context_;
  FakeClock clock_;
  MemoryStore store_{1 << 20, clock_};
};

TEST_F(LookupWithoutUseTest, FindsOnlyTheGivenKey) {
  Put(MadeKey("here"));
  EXPECT_TRUE(Finds(MadeKey("here")));
  EXPECT_FALSE(Finds(MadeKey("not here")));
}

TEST_F(LookupWithoutUseTest, FindsFirstKeyAndKeysThatEndInZeroBytes) {
  for (const Digest& key : {LowKey(0, 0), LowKey(0, 1), LowKey(1, 0), LowKey(1, 1)}) {
    EXPECT_FALSE(Finds(key));
    Put(key);
    EXPECT_TRUE(Finds(key));
  }
}

TEST_F(LookupWithoutUseTest, CountsNoUse) {
  Put(MadeKey("here"));
  ASSERT_TRUE(Finds(MadeKey("here")));
  const auto found = LookupWithoutUse(context_, store_.index(), MadeKey("here"));
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_EQ((*found)->usage.hits, 0u);
}

}  // namespace
}  // namespace kiln
