#include "storage/warm_leases.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "tests/testing/artifacts.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/metric_growth.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr uid_t kAlice = 1000;
constexpr uid_t kBob = 2000;

class WarmLeasesTest : public ::testing::Test {
 protected:
  std::unique_ptr<WarmLeases> Open(milliseconds time = hours(24)) {
    const WarmLeaseLimits limits{.time = time,
                                 .bytes_per_user_max = 100,
                                 .bytes_max = 150,
                                 .entries_per_user_max = 3,
                                 .entries_max = 4};
    return std::make_unique<WarmLeases>(path_, limits, OsFilesystem(), clock_);
  }
  bool Holds(std::string_view name) const { return leases_->Holds(MadeKey(name)); }

  TempDirectory directory_;
  FakeClock clock_;
  const std::string path_ = directory_.File("leases");
  std::unique_ptr<WarmLeases> leases_ = Open();
};

TEST_F(WarmLeasesTest, ALeaseEndsAfterItsTimeUnlessItIsRenewed) {
  leases_->Lease(kAlice, MadeKey("once"), 10);
  leases_->Lease(kAlice, MadeKey("twice"), 10);
  clock_.Advance(hours(23));
  leases_->Lease(kBob, MadeKey("twice"), 10);
  EXPECT_TRUE(Holds("once") && Holds("twice"));
  EXPECT_FALSE(Holds("never"));
  clock_.Advance(hours(2));
  EXPECT_FALSE(Holds("once"));
  EXPECT_TRUE(Holds("twice"));
}

TEST_F(WarmLeasesTest, AUserLeasesNoMoreThanAShareAndTakesNobodysShare) {
  const MetricGrowth growth;
  leases_->Lease(kAlice, MadeKey("a"), 60);
  leases_->Lease(kAlice, MadeKey("too much for Alice"), 50);
  leases_->Lease(kBob, MadeKey("b"), 80);
  leases_->Lease(kBob, MadeKey("too much for all"), 20);
  EXPECT_TRUE(Holds("a") && Holds("b"));
  EXPECT_FALSE(Holds("too much for Alice") || Holds("too much for all"));
  EXPECT_EQ(growth.Of("leases_refused"), 2);
}

TEST_F(WarmLeasesTest, AUserLeasesNoMoreArtifactsThanAShareOfThem) {
  for (const char* name : {"a", "b", "c", "too many"}) leases_->Lease(kAlice, MadeKey(name), 1);
  EXPECT_TRUE(Holds("a") && Holds("b") && Holds("c"));
  EXPECT_FALSE(Holds("too many"));
  leases_->Lease(kBob, MadeKey("d"), 1);
  leases_->Lease(kBob, MadeKey("too many for all"), 1);
  EXPECT_TRUE(Holds("d"));
  EXPECT_FALSE(Holds("too many for all"));
}

TEST_F(WarmLeasesTest, RenewsOnlyWhatIsLeased) {
  EXPECT_FALSE(leases_->Renew(MadeKey("a")));
  EXPECT_FALSE(leases_->HasChanged());
  leases_->Lease(kAlice, MadeKey("a"), 60);
  clock_.Advance(hours(23));
  EXPECT_TRUE(leases_->Renew(MadeKey("a")));
  clock_.Advance(hours(2));
  EXPECT_TRUE(Holds("a"));
}

TEST_F(WarmLeasesTest, EndedLeasesMakeRoomWhileOthersLast) {
  leases_->Lease(kAlice, MadeKey("old"), 50);
  clock_.Advance(hours(12));
  leases_->Lease(kAlice, MadeKey("later"), 40);
  clock_.Advance(hours(13));
  leases_->Lease(kAlice, MadeKey("new"), 50);
  EXPECT_TRUE(Holds("later") && Holds("new"));
  clock_.Advance(hours(12));
  leases_->Lease(kAlice, MadeKey("newest"), 50);
  EXPECT_TRUE(Holds("newest"));
}

TEST_F(WarmLeasesTest, AnEndedLeaseMakesRoom) {
  leases_->Lease(kAlice, MadeKey("old"), 100);
  clock_.Advance(hours(25));
  leases_->Lease(kAlice, MadeKey("new"), 100);
  EXPECT_TRUE(Holds("new"));
}

TEST_F(WarmLeasesTest, LeasesSurviveARestartForNoLongerThanTheNewTime) {
  leases_->Lease(kAlice, MadeKey("a"), 60);
  EXPECT_TRUE(leases_->HasChanged());
  leases_->Save();
  EXPECT_FALSE(leases_->HasChanged());
  leases_ = Open(hours(2));
  EXPECT_TRUE(Holds("a"));
  leases_->Lease(kAlice, MadeKey("too much"), 50);
  EXPECT_FALSE(Holds("too much"));
  clock_.Advance(hours(3));
  EXPECT_FALSE(Holds("a"));
}

TEST_F(WarmLeasesTest, ADamagedFileHoldsNothing) {
  leases_->Lease(kAlice, MadeKey("a"), 60);
  leases_->Save();
  std::string bytes = ReadFileOrDie(path_);
  bytes[20] ^= 1;
  WriteFileOrDie(path_, bytes);
  leases_ = Open();
  EXPECT_FALSE(Holds("a"));
}

TEST_F(WarmLeasesTest, WithoutATimeNothingIsLeased) {
  leases_ = Open(milliseconds(0));
  leases_->Lease(kAlice, MadeKey("a"), 10);
  EXPECT_FALSE(Holds("a"));
  EXPECT_FALSE(leases_->HasChanged());
}

TEST_F(WarmLeasesTest, ALeaseEndsWithItsArtifactAndMakesRoom) {
  leases_->Lease(kAlice, MadeKey("evicted"), 90);
  leases_->Lease(kBob, MadeKey("kept"), 60);
  leases_->OnRemove(MadeKey("evicted"));
  leases_->OnRemove(MadeKey("never leased"));
  EXPECT_TRUE(Holds("kept"));
  EXPECT_FALSE(Holds("evicted"));
  EXPECT_TRUE(leases_->Lease(kAlice, MadeKey("next"), 90));
  leases_->Save();
  leases_ = Open();
  EXPECT_TRUE(Holds("kept") && Holds("next"));
  EXPECT_FALSE(Holds("evicted"));
}

}  // namespace
}  // namespace kiln
