#include "daemon/policy/memory_probe.h"

#include <gtest/gtest.h>

#include "storage/base/limits.h"
#include "tests/testing/fake_clock.h"
#include "tests/unit/policy/kernel_files.h"

namespace kiln {
namespace {

class MemoryProbeTest : public testing::Test {
 protected:
  MemoryState Look() { return SystemMemoryProbe(OsFilesystem(), clock_, files_.root()).Look(); }
  std::optional<uint64_t> Available() { return Look().available_bytes; }
  void Write(const std::string& name, const std::string& content) { files_.Write(name, content); }

  FakeClock clock_;
  KernelFiles files_;
};

constexpr char kMeminfo[] = "MemTotal:  4000 kB\nMemFree:  100 kB\nMemAvailable:  2000 kB\n";

TEST_F(MemoryProbeTest, ReadsTheMachinesAvailableMemory) {
  Write("proc/meminfo", kMeminfo);
  EXPECT_EQ(Available(), 2000u * 1024);
}

TEST_F(MemoryProbeTest, ControlGroupLimitWinsWhereItIsLower) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "0::/kiln.slice\n");
  Write("sys/fs/cgroup/kiln.slice/memory.max", "1000000\n");
  Write("sys/fs/cgroup/kiln.slice/memory.current", "900000\n");
  EXPECT_EQ(Available(), 100'000u);
  Write("sys/fs/cgroup/kiln.slice/memory.stat", "anon 1\ninactive_file 300000\n");
  EXPECT_EQ(Available(), 400'000u);
  Write("sys/fs/cgroup/kiln.slice/memory.max", "max\n");
  EXPECT_EQ(Available(), 2000u * 1024);
}

TEST_F(MemoryProbeTest, MemoryHighIsALimit) {
  Write("proc/self/cgroup", "0::/kiln.slice\n");
  Write("sys/fs/cgroup/kiln.slice/memory.max", "max\n");
  Write("sys/fs/cgroup/kiln.slice/memory.high", "500\n");
  Write("sys/fs/cgroup/kiln.slice/memory.current", "200\n");
  EXPECT_EQ(Available(), 300u);
  Write("sys/fs/cgroup/kiln.slice/memory.max", "400\n");
  EXPECT_EQ(Available(), 200u);
  Write("sys/fs/cgroup/kiln.slice/memory.current", "600\n");
  EXPECT_EQ(Available(), 0u);
}

TEST_F(MemoryProbeTest, EveryGroupOnTheWayUpBinds) {
  Write("proc/self/cgroup", KernelFiles::kVersion2);
  Write("sys/fs/cgroup/system.slice/kilnd.service/memory.max", "1000\n");
  Write("sys/fs/cgroup/system.slice/kilnd.service/memory.current", "100\n");
  Write("sys/fs/cgroup/system.slice/memory.max", "2000\n");
  Write("sys/fs/cgroup/system.slice/memory.current", "1950\n");
  EXPECT_EQ(Available(), 50u);
}

TEST_F(MemoryProbeTest, AContainersOwnGroupIsItsMount) {
  Write("proc/meminfo", kMeminfo);
  Write("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  Write("sys/fs/cgroup/memory.max", "1000\n");
  Write("sys/fs/cgroup/memory.current", "400\n");
  EXPECT_EQ(Available(), 600u);
}

TEST_F(MemoryProbeTest, Version1AndHybrid) {
  for (const char* layout : {KernelFiles::kVersion1, KernelFiles::kHybrid}) {
    Write("proc/meminfo", kMeminfo);
    Write("proc/self/cgroup", layout);
    // What is no limit there.
    Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
    Write("sys/fs/cgroup/memory/system.slice/kilnd.service/memory.limit_in_bytes", "5000\n");
    Write("sys/fs/cgroup/memory/system.slice/kilnd.service/memory.usage_in_bytes", "4000\n");
    Write("sys/fs/cgroup/memory/system.slice/kilnd.service/memory.stat",
          "inactive_file 1\ntotal_inactive_file 500\n");
    EXPECT_EQ(Available(), 1500u);
  }
}

TEST_F(MemoryProbeTest, UnreadableFilesLeaveMemoryUnknown) { EXPECT_EQ(Available(), std::nullopt); }

TEST_F(MemoryProbeTest, PressureIsTheHigherOfMachineAndGroups) {
  EXPECT_EQ(Look().pressure_percent, 0);
  Write("proc/self/cgroup", KernelFiles::kVersion2);
  Write("proc/pressure/memory",
        "some avg10=1.50 avg60=9.00 avg300=0.00 total=7\nfull avg10=8.00 avg60=0.00 total=0\n");
  EXPECT_EQ(Look().pressure_percent, 1.5);
  Write("sys/fs/cgroup/system.slice/memory.pressure", "some avg10=23.07 avg60=0.00\n");
  EXPECT_EQ(Look().pressure_percent, 23.07);
  Write("sys/fs/cgroup/system.slice/memory.pressure", "some avg10=nan\n");
  Write("proc/pressure/memory", "some avg10=-3\n");
  EXPECT_EQ(Look().pressure_percent, 0);
}

TEST_F(MemoryProbeTest, ReadsAgainWhenTheLastReadingIsOld) {
  Write("proc/meminfo", "MemAvailable: 1 kB\n");
  const SystemMemoryProbe probe(OsFilesystem(), clock_, files_.root());
  EXPECT_EQ(probe.Look().available_bytes, 1024u);
  Write("proc/meminfo", "MemAvailable: 2 kB\n");
  clock_.Advance(limits::kMemoryLookAge - std::chrono::milliseconds(1));
  EXPECT_EQ(probe.Look().available_bytes, 1024u);
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(probe.Look().available_bytes, 2048u);
}

TEST(SystemMemoryProbe, ReadsThisMachine) {
  EXPECT_GT(SystemMemoryProbe(OsFilesystem(), SystemClock()).Look().available_bytes.value_or(0),
            0u);
}

}  // namespace
}  // namespace kiln
