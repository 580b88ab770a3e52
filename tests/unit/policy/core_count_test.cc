#include "daemon/policy/core_count.h"

#include <gtest/gtest.h>

#include "tests/unit/policy/kernel_files.h"

namespace kiln {
namespace {

class CoreCountTest : public testing::Test {
 protected:
  int Of(int cores) { return CoresWithinQuota(files_.Groups(), OsFilesystem(), cores); }

  KernelFiles files_;
};

TEST_F(CoreCountTest, CountsAllCoresWithoutAQuota) {
  EXPECT_EQ(Of(8), 8);
  files_.Write("proc/self/cgroup", KernelFiles::kVersion2);
  files_.Write("sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(Of(8), 8);
}

TEST_F(CoreCountTest, APartOfACoreCountsAsOne) {
  files_.Write("proc/self/cgroup", KernelFiles::kVersion2);
  const auto with = [this](const std::string& quota) {
    files_.Write("sys/fs/cgroup/system.slice/kilnd.service/cpu.max", quota);
    return Of(8);
  };
  EXPECT_EQ(with("1000 100000\n"), 1);
  EXPECT_EQ(with("100000 100000\n"), 1);
  EXPECT_EQ(with("100001 100000\n"), 2);
  EXPECT_EQ(with("250000 100000\n"), 3);
  EXPECT_EQ(with("1600000 100000\n"), 8);
}

TEST_F(CoreCountTest, TheTightestQuotaOnTheWayUpHolds) {
  files_.Write("proc/self/cgroup", KernelFiles::kVersion2);
  files_.Write("sys/fs/cgroup/system.slice/kilnd.service/cpu.max", "400000 100000\n");
  files_.Write("sys/fs/cgroup/system.slice/cpu.max", "200000 100000\n");
  EXPECT_EQ(Of(8), 2);
}

TEST_F(CoreCountTest, AContainersOwnGroupIsItsMount) {
  files_.Write("proc/self/cgroup", KernelFiles::kVersion2Namespace);
  files_.Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Of(8), 3);
  files_.Write("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  EXPECT_EQ(Of(8), 3);
}

TEST_F(CoreCountTest, Version1AndHybrid) {
  for (const char* layout : {KernelFiles::kVersion1, KernelFiles::kHybrid}) {
    files_.Write("proc/self/cgroup", layout);
    files_.Write("sys/fs/cgroup/cpu/system.slice/cpu.cfs_quota_us", "-1\n");
    files_.Write("sys/fs/cgroup/cpu/system.slice/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(Of(8), 8);
    files_.Write("sys/fs/cgroup/cpu/system.slice/cpu.cfs_quota_us", "150000\n");
    EXPECT_EQ(Of(8), 2);
  }
}

TEST_F(CoreCountTest, NonsenseIsNoQuota) {
  files_.Write("proc/self/cgroup", KernelFiles::kVersion2);
  for (const char* text : {"", "x y", "100000", "100000 0", "0 100000", "-5 100000"}) {
    files_.Write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Of(8), 8) << text;
  }
}

TEST(CoreCount, CountsCoresOfThisProcess) {
  EXPECT_GE(AffinityCores(), 1);
  EXPECT_GE(CoresWithinQuota(ControlGroups::Find(OsFilesystem(), ""), OsFilesystem(), 1), 1);
}

}  // namespace
}  // namespace kiln
