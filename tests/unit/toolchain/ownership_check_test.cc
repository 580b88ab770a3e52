#include "daemon/toolchain/ownership_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

TEST_F(OwnershipCheckTest, WhatNobodyElseMayWriteTo) {
  EXPECT_EQ(With(0755), "");
  EXPECT_EQ(WhyNot(FileTrust(), directory_.path()), "");
}

TEST_F(OwnershipCheckTest, NotWhatEveryoneMayWriteTo) {
  EXPECT_THAT(With(0757), HasSubstr("chmod o-w"));
}

TEST_F(OwnershipCheckTest, NotWhatIsNotThere) {
  EXPECT_NE(WhyNot(FileTrust(), path_ + "-not"), "");
}

class OwnershipCheckOfRootTest : public OwnershipCheckTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  }
  void Give(uid_t uid, gid_t gid) const { ASSERT_EQ(::chown(path_.c_str(), uid, gid), 0); }
};

TEST_F(OwnershipCheckOfRootTest, AGroupOfTheOwnersAloneMay) {
  Give(0, 0);
  EXPECT_EQ(With(0775), "");
}

TEST_F(OwnershipCheckOfRootTest, NotWhatAnAccessListGivesToOthers) {
  // acl(5) as the kernel has it: a version, then for each entry a tag, its rights and an id. All is
  // little-endian, as the machines are that this runs on.
  struct Entry {
    uint16_t tag;
    uint16_t rights;
    uint32_t id;
  };
  struct {
    uint32_t version = 2;
    Entry entries[5] = {{0x01, 6, ~0u},        // the owner
                        {0x02, 6, 1'234'567},  // another user
                        {0x04, 4, ~0u},        // the group
                        {0x10, 6, ~0u},        // at most: what stat says of the group
                        {0x20, 4, ~0u}};       // everybody else
  } list;
  Give(0, 0);
  EXPECT_EQ(With(0664), "");
  if (::setxattr(path_.c_str(), "system.posix_acl_access", &list, sizeof list, 0) != 0) {
    GTEST_SKIP() << "the file system has no access lists: " << std::strerror(errno);
  }
  EXPECT_THAT(WhyNot(FileTrust(), path_), HasSubstr("setfacl -b"));
  // Then nobody is given more than to read.
  EXPECT_EQ(With(0644), "");
}

TEST_F(OwnershipCheckOfRootTest, AnAccessListThatCannotBeReadMayBeThere) {
  Give(0, 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0664), 0);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_TRUE(FileTrust().Check(path_, info).ok());
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_TRUE(absl::IsUnavailable(FileTrust().Check(path_, info)));
}

TEST_F(OwnershipCheckOfRootTest, AnotherGroupMayNot) {
  Give(0, kStranger);
  EXPECT_THAT(With(0775), HasSubstr("chmod g-w"));
  EXPECT_EQ(With(0755), "");
}

TEST_F(OwnershipCheckOfRootTest, AGroupThatCannotBeLookedUpIsNobodysYet) {
  Give(kStranger, kStranger);
  ASSERT_EQ(::chmod(path_.c_str(), 0775), 0);
  FileTrust trust({.further = {kStranger}});
  {
    const NoMoreDescriptors none;
    EXPECT_TRUE(absl::IsUnavailable(trust.Check(path_)));
  }
  EXPECT_TRUE(trust.Check(path_).ok());
}

TEST_F(OwnershipCheckOfRootTest, AnotherOwnerMayNot) {
  Give(kStranger, 0);
  EXPECT_THAT(With(0755), HasSubstr("belongs to user 1234567"));
}

TEST_F(OwnershipCheckOfRootTest, UnlessTheyAreNamed) {
  Give(kStranger, 0);
  EXPECT_THAT(With(0755), HasSubstr("toolchain.trusted_owners"));
  EXPECT_EQ(WhyNot(FileTrust({.further = {kStranger + 1, kStranger}}), path_), "");
  EXPECT_NE(WhyNot(FileTrust({.further = {kStranger + 1}}), path_), "");
}

TEST_F(OwnershipCheckOfRootTest, AUidOfSeveralUsersIsNobodysOwn) {
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

TEST_F(OwnershipCheckOfRootTest, TheDaemonsOwnUserMay) {
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
