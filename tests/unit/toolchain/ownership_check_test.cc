#include "daemon/toolchain/ownership_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/testing/no_more_descriptors.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// Nobody's, in no database.
constexpr uid_t kStranger = 1'234'567;

// "" where there is nothing against it.
std::string WhyNot(FileTrust trust, const std::string& path) {
  return std::string(Message(trust.Check(path)));
}

class OwnershipCheckTest : public testing::Test {
 protected:
  OwnershipCheckTest() { WriteFileOrDie(path_, "program"); }

  std::string With(mode_t mode) const {
    EXPECT_EQ(::chmod(path_.c_str(), mode), 0);
    return WhyNot(FileTrust(), path_);
  }

  const TempDirectory directory_;
  const std::string path_ = directory_.File("ptxas");
};

TEST_F(OwnershipCheckTest, AcceptsAFileWritableByItsOwnerAlone) {
  EXPECT_EQ(With(0755), "");
  EXPECT_EQ(WhyNot(FileTrust(), directory_.path()), "");
}

TEST_F(OwnershipCheckTest, RejectsAWorldWritableFile) {
  EXPECT_THAT(With(0757), HasSubstr("chmod o-w"));
}

TEST_F(OwnershipCheckTest, RejectsAMissingFile) {
  EXPECT_NE(WhyNot(FileTrust(), path_ + "-not"), "");
}

class OwnershipCheckOfRootTest : public OwnershipCheckTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  }
  void Give(uid_t uid, gid_t gid) const { ASSERT_EQ(::chown(path_.c_str(), uid, gid), 0); }
};

TEST_F(OwnershipCheckOfRootTest, AcceptsAFileWritableByAGroupOfItsOwnerAlone) {
  Give(0, 0);
  EXPECT_EQ(With(0775), "");
}

TEST_F(OwnershipCheckOfRootTest, RejectsAFileWritableByAnotherGroup) {
  Give(0, kStranger);
  EXPECT_THAT(With(0775), HasSubstr("chmod g-w"));
  EXPECT_EQ(With(0755), "");
}

TEST_F(OwnershipCheckOfRootTest, RejectsAFileOfAGroupThatCannotBeLookedUp) {
  Give(kStranger, kStranger);
  ASSERT_EQ(::chmod(path_.c_str(), 0775), 0);
  FileTrust trust({.further = {kStranger}});
  {
    const NoMoreDescriptors none;
    EXPECT_TRUE(absl::IsUnavailable(trust.Check(path_)));
  }
  EXPECT_TRUE(trust.Check(path_).ok());
}

TEST_F(OwnershipCheckOfRootTest, RejectsAFileOfAnotherOwner) {
  Give(kStranger, 0);
  EXPECT_THAT(With(0755), HasSubstr("belongs to user 1234567"));
}

TEST_F(OwnershipCheckOfRootTest, AcceptsAFileOfATrustedOwner) {
  Give(kStranger, 0);
  EXPECT_THAT(With(0755), HasSubstr("toolchain.trusted_owners"));
  EXPECT_EQ(WhyNot(FileTrust({.further = {kStranger + 1, kStranger}}), path_), "");
  EXPECT_NE(WhyNot(FileTrust({.further = {kStranger + 1}}), path_), "");
}

TEST_F(OwnershipCheckOfRootTest, RejectsAUidThatSeveralUsersShare) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  Give(kStranger, 0);
  EXPECT_EQ(::chmod(path_.c_str(), 0755), 0);
  ASSERT_EQ(::seteuid(kStranger), 0);
  const std::string problem = WhyNot(FileTrust({.shared = kStranger}), path_);
  const std::string named = WhyNot(FileTrust({.further = {kStranger}, .shared = kStranger}), path_);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_THAT(problem, HasSubstr("every user that it does not map"));
  EXPECT_THAT(problem, HasSubstr("toolchain.trusted_owners"));
  EXPECT_EQ(named, "");
}

TEST_F(OwnershipCheckOfRootTest, AcceptsAFileOfTheDaemonsOwnUser) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0711), 0);
  Give(kStranger, kStranger);
  EXPECT_EQ(::chmod(path_.c_str(), 0775), 0);
  ASSERT_EQ(::seteuid(kStranger), 0);
  const std::string problem = WhyNot(FileTrust(), path_);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace kiln
