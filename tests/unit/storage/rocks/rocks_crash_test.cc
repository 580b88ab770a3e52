// kill -9 in the middle of puts, against an oracle of what was acknowledged.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"
#include "storage/rocks/rocks_open.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

// This process never opens a store itself: its children then start without RocksDB's threads, as
// the daemon does.
class RocksCrashTest : public testing::Test {
 protected:
  static std::unique_ptr<Store> OpenOrDie(const std::string& path) {
    auto opened = OpenRocksStore({.path = path, .expected_bytes = 16 * limits::kMiB},
                                 OsFilesystem(), SystemClock());
    if (!opened.ok() || !opened->report.set_aside.empty()) _exit(3);
    return std::move(opened->store);
  }

  // Puts artifacts first, first + 1, … and says the number of each once it is acknowledged, until
  // it is killed. Every third removes the one before, and says so with a negative number before it
  // begins.
  [[noreturn]] static void Write(const std::string& path, int first, int acknowledgements) {
    const auto store = OpenOrDie(path);
    const auto say = [&](int number) {
      if (write(acknowledgements, &number, sizeof number) != sizeof number) _exit(4);
    };
    for (int i = first;; ++i) {
      const MadeArtifact made = MakeArtifact(std::to_string(i), 3000);
      if (!store->index().Put({}, made.record, made.blobs).ok()) _exit(5);
      say(i);
      if (i % 3 != 0) continue;
      say(-(i - 1));
      (void)store->index().Remove({}, MadeKey(std::to_string(i - 1)));
    }
  }

  // Exit code 0: every one of `expected` is there and whole, and the books balance.
  [[noreturn]] static void Check(const std::string& path, const std::vector<int>& expected) {
    const auto store = OpenOrDie(path);
    for (const int number : expected) {
      const MadeArtifact made = MakeArtifact(std::to_string(number), 3000);
      const auto found = store->index().Get({}, made.record.key);
      if (!found.ok() || *found->record != made.record) _exit(6);
      for (const Blob& blob : made.blobs) {
        if (!store->blobs().GetBlob({}, blob.digest()).ok()) _exit(7);
      }
    }
    const auto all = store->index().Scan({}, std::nullopt, 1'000'000);
    if (!all.ok() || all->size() != store->Stats().artifacts) _exit(8);
    if (store->Stats().quarantined != 0) _exit(9);
    _exit(0);
  }

  static pid_t Fork(const std::function<void()>& child) {
    const pid_t pid = fork();
    if (pid == 0) {
      child();
      _exit(0);
    }
    return pid;
  }
};

TEST_F(RocksCrashTest, AcknowledgedPutsSurviveKillNine) {
  constexpr int kRounds = 20;
  const TempDirectory directory;
  const std::string path = directory.File("store");
  std::mt19937 random(7);
  std::vector<int> acknowledged;
  int next = 1;
  for (int round = 0; round < kRounds; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const pid_t writer = Fork([&] { Write(path, next, write_end.get()); });
    write_end.Reset();

    const auto lucky_number = static_cast<int>(random() % 60);
    int number = 0;
    int heard = 0;
    bool is_killed = false;
    // What was written into the pipe before the end counts as said, also when it is read after it.
    while (read(read_end.get(), &number, sizeof number) == sizeof number) {
      if (number > 0) acknowledged.push_back(number);
      if (number < 0) std::erase(acknowledged, -number);
      next = std::max(next, std::abs(number) + 2);
      if (heard++ >= lucky_number && !is_killed) {
        is_killed = kill(writer, SIGKILL) == 0;
      }
    }
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << WEXITSTATUS(status);

    const pid_t checker = Fork([&] { Check(path, acknowledged); });
    ASSERT_EQ(waitpid(checker, &status, 0), checker);
    ASSERT_TRUE(WIFEXITED(status)) << "the checker crashed";
    ASSERT_EQ(WEXITSTATUS(status), 0) << "round " << round;
  }
  EXPECT_GT(acknowledged.size(), 100u);
}

}  // namespace
}  // namespace kiln
