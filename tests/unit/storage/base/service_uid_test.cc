#include "storage/base/service_uid.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

constexpr uid_t kService = 4321;

TEST(ServiceUidTest, TrustsOnlyADirectoryThatRootMade) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const TempDirectory run;
  const std::string kiln = run.File("kiln");
  EXPECT_EQ(ServiceUid(kiln), std::nullopt);
  ASSERT_EQ(::mkdir(kiln.c_str(), 0755) | ::chown(kiln.c_str(), kService, kService), 0);
  EXPECT_EQ(ServiceUid(kiln), kService);
  // Anybody could have made the directory.
  ASSERT_EQ(::chmod(run.path().c_str(), 01777), 0);
  EXPECT_EQ(ServiceUid(kiln), std::nullopt);
  ASSERT_EQ(::chmod(run.path().c_str(), 0755) | ::chown(run.path().c_str(), kService, 0), 0);
  EXPECT_EQ(ServiceUid(kiln), std::nullopt);
}

TEST(ServiceUidTest, RefusesTheOverflowUidAndALink) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const TempDirectory run;
  const std::string kiln = run.File("kiln");
  ASSERT_EQ(::mkdir(kiln.c_str(), 0755) | ::chown(kiln.c_str(), 65534, 65534), 0);
  EXPECT_EQ(ServiceUid(kiln), std::nullopt);
  ASSERT_EQ(::chown(kiln.c_str(), kService, kService), 0);
  ASSERT_EQ(::symlink(kiln.c_str(), run.File("link").c_str()), 0);
  EXPECT_EQ(ServiceUid(run.File("link")), std::nullopt);
}

}  // namespace
}  // namespace kiln
