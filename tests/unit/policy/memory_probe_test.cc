#include "daemon/policy/memory_probe.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

class MemoryProbeTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    const std::filesystem::path path = std::filesystem::path(directory_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  std::optional<uint64_t> Available() {
    return SystemMemoryProbe(directory_.path()).AvailableBytes();
  }

  TempDirectory directory_;
};

constexpr char kMeminfo[] = "MemTotal:  4000 kB\nMemFree:  100 kB\nMemAvailable:  2000 kB\n";

TEST_F(MemoryProbeTest, IsWhatTheMachineSays) {
  Write("proc/meminfo", kMeminfo);
  EXPECT_EQ(Available(), 2000u * 1024);
}

TEST_F(MemoryProbeTest, IsWhatTheControlGroupLeavesWhereThatIsLess) {
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

TEST_F(MemoryProbeTest, IsUnknownWhereNothingSays) { EXPECT_EQ(Available(), std::nullopt); }

TEST(SystemMemoryProbe, ReadsThisMachine) {
  EXPECT_GT(SystemMemoryProbe().AvailableBytes().value_or(0), 0u);
}

}  // namespace
}  // namespace kiln
