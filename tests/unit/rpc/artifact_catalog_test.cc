#include "daemon/rpc/artifact_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/kernel/artifact_document.h"
#include "storage/base/limits.h"
#include "storage/forwarding_store.h"
#include "storage/lookup_without_use.h"
#include "storage/memory_store.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The key whose digits begin so and go on with `rest`.
Digest Key(std::string digits, char rest = '0') {
  digits.append(2 * Digest::kSizeBytes - digits.size(), rest);
  return *Digest::FromHex(digits);
}

TEST(KeysBeginningWithTest, FromTheLowestToTheHighest) {
  const auto all = KeysBeginningWith("");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->first, Key("", '0'));
  EXPECT_EQ(all->last, Key("", 'f'));
  // Half a byte.
  const auto odd = KeysBeginningWith("abc");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->first, Key("abc", '0'));
  EXPECT_EQ(odd->last, Key("abc", 'f'));
  const auto one = KeysBeginningWith(Key("12", 'e').Hex());
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->first, one->last);
}

TEST(KeysBeginningWithTest, DigitsOfEitherCase) {
  const auto range = KeysBeginningWith("AbC");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->first, Key("abc", '0'));
}

TEST(KeysBeginningWithTest, RefusesTextThatIsNotAPrefixOfAKey) {
  for (const std::string& prefix :
       {std::string("xyz"), std::string("12 "), std::string("0x12"), std::string("ab\0", 3),
        std::string(65, 'a'), std::string(100'000, 'a')}) {
    const absl::Status status = KeysBeginningWith(prefix).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(Message(status)), HasSubstr("key_prefix"));
    EXPECT_LT(Message(status).size(), 300u);
  }
}

TEST(KeyBeforeTest, BorrowsAcrossBytes) {
  EXPECT_EQ(KeyBefore(Key("")), std::nullopt);
  EXPECT_EQ(KeyBefore(Key("01")), Key("00", 'f'));
  EXPECT_EQ(KeyBefore(Key("", 'f')), Key(std::string(63, 'f'), 'e'));
  EXPECT_EQ(KeyBefore(Key(std::string(63, '0'), '1')), Key(""));
}

class ArtifactCatalogTest : public ::testing::Test {
 protected:
  void Put(const Digest& key) {
    MadeArtifact made = MakeArtifact(key.Hex());
    made.record.key = key;
    ASSERT_TRUE(store_.index().Put({}, made.record, made.blobs).ok());
  }
  // The keys of a page, and "more" where there are.
  std::vector<std::string> Page(std::string_view prefix, const std::optional<Digest>& after,
                                size_t limit) {
    const auto page = ReadPage(store_.index(), {}, *KeysBeginningWith(prefix), after, limit);
    EXPECT_TRUE(page.ok()) << page.status();
    std::vector<std::string> keys;
    for (const FoundArtifact& found : page->artifacts) {
      keys.push_back(found.record->key.Hex().substr(0, 4));
    }
    if (page->has_more) keys.push_back("more");
    return keys;
  }

  FakeClock clock_;
  MemoryStore store_{64 * limits::kMiB, clock_};
};

TEST_F(ArtifactCatalogTest, PageHoldsTheRangeAndNothingElse) {
  for (const char* digits : {"0000", "aaaa", "abc0", "abcd", "abcf", "abd0", "ffff"}) {
    Put(Key(digits));
  }
  EXPECT_THAT(Page("", std::nullopt, 100),
              ElementsAre("0000", "aaaa", "abc0", "abcd", "abcf", "abd0", "ffff"));
  EXPECT_THAT(Page("abc", std::nullopt, 100), ElementsAre("abc0", "abcd", "abcf"));
  EXPECT_THAT(Page("0", std::nullopt, 100), ElementsAre("0000"));
  EXPECT_THAT(Page("f", std::nullopt, 100), ElementsAre("ffff"));
  EXPECT_THAT(Page("b", std::nullopt, 100), IsEmpty());
}

TEST_F(ArtifactCatalogTest, KeysOfAllZeroesAndAllOnesAreThere) {
  Put(Key("", '0'));
  Put(Key("", 'f'));
  EXPECT_THAT(Page("", std::nullopt, 100), ElementsAre("0000", "ffff"));
  EXPECT_THAT(Page("", Key("", '0'), 100), ElementsAre("ffff"));
  EXPECT_THAT(Page("", Key("", 'f'), 100), IsEmpty());
}

TEST_F(ArtifactCatalogTest, SaysMoreOnlyWhereTheRangeGoesOn) {
  for (const char* digits : {"abc0", "abcd", "abcf", "ffff"}) Put(Key(digits));
  EXPECT_THAT(Page("abc", std::nullopt, 2), ElementsAre("abc0", "abcd", "more"));
  EXPECT_THAT(Page("abc", std::nullopt, 3), ElementsAre("abc0", "abcd", "abcf"));
  EXPECT_THAT(Page("abc", Key("abcd"), 1), ElementsAre("abcf"));
}

TEST_F(ArtifactCatalogTest, GoesOnAfterAKeyWhereverItLies) {
  for (const char* digits : {"abc0", "abcd", "abcf"}) Put(Key(digits));
  // One that has been removed meanwhile, one before the range, one behind it.
  EXPECT_THAT(Page("abc", Key("abcc"), 100), ElementsAre("abcd", "abcf"));
  EXPECT_THAT(Page("abc", Key("11"), 100), ElementsAre("abc0", "abcd", "abcf"));
  EXPECT_THAT(Page("abc", Key("ff"), 100), IsEmpty());
}

TEST_F(ArtifactCatalogTest, FindsTheOnlyOneThatBeginsSo) {
  Put(Key("abcd1"));
  Put(Key("abcd2"));
  const auto code = [&](std::string_view prefix) {
    return FindByPrefix(store_.index(), {}, prefix).status().code();
  };
  const auto found = FindByPrefix(store_.index(), {}, "abcd2");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->record->key, Key("abcd2"));
  EXPECT_EQ(code(Key("abcd1").Hex()), absl::StatusCode::kOk);
  EXPECT_EQ(code("abcd"), absl::StatusCode::kInvalidArgument);  // two
  EXPECT_EQ(code("abc"), absl::StatusCode::kInvalidArgument);   // too short
  EXPECT_EQ(code(""), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("abcg"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("abce"), absl::StatusCode::kNotFound);
}

TEST_F(ArtifactCatalogTest, ListingCountsNoUse) {
  Put(Key("abcd"));
  for (int i = 0; i < 3; ++i) {
    const auto found = FindByPrefix(store_.index(), {}, "abcd");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->usage.hits, 0u);
  }
}

TEST_F(ArtifactCatalogTest, SummaryOfAnArtifact) {
  const CompileJobPtr job = MakeJob("a");
  const auto artifact = MakeArtifactOf(*job);
  FoundArtifact found;
  found.record = std::make_shared<ArtifactRecord>(MakeRecord(*artifact));
  found.usage = {.last_use_unix_ms = 77, .hits = 3, .pinned = true};
  admin::v1::ArtifactSummary summary;
  Summarize(found, summary);
  EXPECT_EQ(summary.key(), job->key.Bytes());
  EXPECT_EQ(summary.name(), artifact->metadata.name);
  EXPECT_EQ(summary.target().backend(), artifact->metadata.target.backend);
  EXPECT_EQ(summary.toolchain(), artifact->provenance.toolchain);
  EXPECT_EQ(summary.size_bytes(),
            artifact->stages[0].blob.size_bytes() + artifact->stages[1].blob.size_bytes());
  EXPECT_EQ(summary.last_use_unix_ms(), 77);
  EXPECT_EQ(summary.hits(), 3u);
  EXPECT_TRUE(summary.pinned());
}

TEST_F(ArtifactCatalogTest, RecordWithoutAReadableDocumentIsListedByTheRest) {
  ArtifactRecord record = MakeRecord(*MakeArtifactOf(*MakeJob("a")));
  record.document = "{";
  FoundArtifact found;
  found.record = std::make_shared<ArtifactRecord>(record);
  admin::v1::ArtifactSummary summary;
  Summarize(found, summary);
  EXPECT_EQ(summary.key(), record.key.Bytes());
  EXPECT_GT(summary.size_bytes(), 0u);
  EXPECT_EQ(summary.name(), "");
  EXPECT_FALSE(summary.has_target());
}

TEST_F(ArtifactCatalogTest, TheNewestAreThoseThatWereStoredLast) {
  const std::vector<std::pair<std::string, int64_t>> times = {
      {"aa", 5}, {"bb", 7}, {"cc", 0}, {"dd", 6}, {"ee", 9}};
  for (const auto& [digits, created] : times) {
    MadeArtifact made = MakeArtifact(digits);
    made.record.key = Key(digits);
    made.record.created_unix_ms = created;
    CallContext context;
    context.principal.uid = digits == "bb" ? 1 : 2;
    if (digits == "ee") context.priority = Priority::kWarm;  // nobody waited
    ASSERT_TRUE(store_.index().Put(context, made.record, made.blobs).ok());
  }
  admin::v1::ListArtifactsRequest request;
  const auto keys = [&] {
    admin::v1::ListArtifactsResponse response;
    EXPECT_TRUE(ListArtifacts(store_.index(), {}, request, response).ok());
    EXPECT_EQ(response.next(), "");
    std::vector<std::string> found;
    for (const auto& one : response.artifacts()) {
      found.push_back(Digest::FromBytes(one.key())->Hex().substr(0, 2));
    }
    return found;
  };
  request.set_newest(2);
  EXPECT_THAT(keys(), ElementsAre("bb", "dd"));
  request.set_newest(100);
  EXPECT_THAT(keys(), ElementsAre("bb", "dd", "aa", "cc"));
  request.set_uid(2);
  EXPECT_THAT(keys(), ElementsAre("dd", "aa", "cc"));
  request.set_kernel("other fields");
  admin::v1::ListArtifactsResponse refused;
  EXPECT_TRUE(absl::IsInvalidArgument(ListArtifacts(store_.index(), {}, request, refused)));
}

// Artifacts of uid 2 without end.
class EndlessStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext&,
                                                     const std::optional<Digest>&,
                                                     size_t limit) override {
    std::vector<FoundUsage> page;
    ArtifactUsage usage;
    usage.uid = 2;
    usage.name = "kernel";
    while (page.size() < limit) page.push_back({Digest::Of(std::to_string(seen_++)), usage});
    return page;
  }
  size_t seen() const { return seen_; }

 private:
  size_t seen_ = 0;
};

TEST(ListNewestTest, AListOfOneUsersLooksAtABoundedNumber) {
  FakeClock clock;
  EndlessStore store(std::make_unique<MemoryStore>(limits::kMiB, clock));
  admin::v1::ListArtifactsRequest request;
  request.set_newest(10);
  request.set_uid(2);
  admin::v1::ListArtifactsResponse response;
  EXPECT_TRUE(ListArtifacts(store, {}, request, response).ok());
  EXPECT_LT(store.seen(), limits::kNearestUsagesMax + limits::kListScanMax);
}

}  // namespace
}  // namespace kiln
