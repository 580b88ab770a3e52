#include "daemon/process/worker_holdings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "storage/base/limits.h"
#include "tests/testing/no_more_descriptors.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

// Processes that have a file without a name open, each another one.
class HoldingsTest : public testing::Test {
 protected:
  static constexpr size_t kFileBytes = limits::kMiB;

  ~HoldingsTest() override {
    for (const pid_t process : processes_) ::kill(process, SIGKILL);
    for (const pid_t process : processes_) ::waitpid(process, nullptr, 0);
  }

  // Its file is held by its first thread, or by another that outlives that one.
  enum class Holder { kFirstThread, kOtherThread };

  void StartOne(Holder holder = Holder::kFirstThread) {
    const std::string path = directory_.File("nameless");
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    const pid_t process = ::fork();
    if (process == 0) {
      const auto hold = [&] {
        const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ::unlink(path.c_str());
        if (::posix_fallocate(file, 0, kFileBytes) != 0 || ::write(ready[1], "x", 1) != 1) _exit(1);
        while (true) ::pause();
      };
      if (holder == Holder::kFirstThread) hold();
      std::thread(hold).detach();
      ::syscall(SYS_exit, 0);
    }
    ASSERT_GT(process, 0);
    processes_.push_back(process);
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    if (holder == Holder::kOtherThread) WaitForEndOfFirstThread(process);
  }

  static void WaitForEndOfFirstThread(pid_t process) {
    for (std::string maps = "?"; !maps.empty();) {
      std::ifstream file("/proc/" + std::to_string(process) + "/maps");
      maps.assign(std::istreambuf_iterator(file), {});
    }
  }

  Holdings Measure(std::function<bool()> is_pointless, uint64_t mappings_max = 1'000'000) {
    const auto all = MeasureHoldings(directory_.path(), processes_, ::getpid(),
                                     {100, mappings_max, std::move(is_pointless)});
    EXPECT_TRUE(all.ok()) << all.status();
    return all.ok() ? *all : Holdings{};
  }

  TempDirectory directory_;
  std::vector<pid_t> processes_;
};

bool Never() { return false; }

TEST_F(HoldingsTest, EachProcessCounts) {
  StartOne();
  const Holdings one = Measure(Never);
  StartOne();
  StartOne();
  const Holdings three = Measure(Never);
  EXPECT_GE(one.disk_bytes, kFileBytes);
  EXPECT_EQ(three.disk_bytes, 3 * one.disk_bytes);
  EXPECT_GT(three.mappings, 2 * one.mappings);
}

TEST_F(HoldingsTest, AProcessWhoseFirstThreadIsOverCountsAsAnyOther) {
  StartOne();
  const Holdings one = Measure(Never);
  StartOne(Holder::kOtherThread);
  const Holdings two = Measure(Never);
  EXPECT_EQ(two.disk_bytes, 2 * one.disk_bytes);
  EXPECT_GT(two.mappings, one.mappings);
  EXPECT_EQ(Measure(Never, one.mappings + 1).mappings, one.mappings + 1);
}

TEST_F(HoldingsTest, AProcessThatIsOverHoldsNothing) {
  StartOne();
  StartOne();
  const Holdings two = Measure(Never);
  ::kill(processes_[1], SIGKILL);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(processes_[1]), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(2 * Measure(Never).disk_bytes, two.disk_bytes);
  ::waitpid(processes_[1], nullptr, 0);
  EXPECT_EQ(2 * Measure(Never).disk_bytes, two.disk_bytes);
  processes_.pop_back();
}

// What of the zygote is missed would be held against its workers.
TEST_F(HoldingsTest, WithoutALookAtTheZygoteThereIsNone) {
  StartOne();
  int looks = 0;
  Measure([&] {
    ++looks;
    return false;
  });
  std::optional<NoMoreDescriptors> shortage;
  const HoldingsLook look{100, 1'000'000, [&] {
                            if (--looks == 0) shortage.emplace();
                            return false;
                          }};
  const auto all = MeasureHoldings(directory_.path(), processes_, ::getpid(), look);
  shortage.reset();
  EXPECT_TRUE(absl::IsResourceExhausted(all.status())) << all.status();
}

TEST_F(HoldingsTest, WithoutAZygoteThereIsNoLook) {
  StartOne();
  const pid_t over = ::fork();
  if (over == 0) _exit(0);
  ASSERT_EQ(::waitpid(over, nullptr, 0), over);
  const auto all = MeasureHoldings(directory_.path(), processes_, over, {100, 1'000'000, Never});
  EXPECT_TRUE(absl::IsNotFound(all.status())) << all.status();
}

// A worker may have more threads than the machine has cores, and files in the last place.
TEST_F(HoldingsTest, HoweverLongItTakesAllIsCounted) {
  for (int i = 0; i < 3; ++i) StartOne();
  const Holdings quick = Measure(Never);
  const Holdings slow = Measure([] {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return false;
  });
  EXPECT_EQ(slow.disk_bytes, quick.disk_bytes);
  EXPECT_EQ(slow.mappings, quick.mappings);
}

TEST_F(HoldingsTest, MappingsAreCountedUpToTheirMaximum) {
  for (int i = 0; i < 3; ++i) StartOne();
  EXPECT_EQ(Measure(Never, 50).mappings, 50u);
}

TEST_F(HoldingsTest, ALookEndsOnceItIsPointless) {
  for (int i = 0; i < 3; ++i) StartOne();
  int asked = 0;
  const Holdings some = Measure([&] { return ++asked > 20; });
  EXPECT_LE(some.mappings, 20u);
  EXPECT_LT(asked, 40);
}

}  // namespace
}  // namespace kiln
