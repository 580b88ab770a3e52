// Whom the kernel chooses when memory ends: with the real worker programs, which could have another
// opinion than the daemon.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "daemon/chain/pooled_provider.h"
#include "tests/testing/real_toolchains.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

int ScoreOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/oom_score_adj", pid));
  int score = -1001;
  file >> score;
  return score;
}

// A zygote holds what all its workers share, so it is the largest of them.
void ExpectWorkersGoFirst(const ZygoteCommand& command, const std::string& directory) {
  const WakeEvent stop;
  const auto zygote = Zygote::Start(command, stop);
  ASSERT_TRUE(zygote.ok()) << zygote.status();
  std::array<int, 2> sockets{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  const UniqueFd ours(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  const auto worker = (*zygote)->Fork(theirs.get(), STDERR_FILENO, directory, {});
  ASSERT_TRUE(worker.ok()) << worker.status();
  const int of_worker = ScoreOf(*worker);
  const int of_zygote = ScoreOf((*zygote)->pid());
  (*zygote)->EndWorker(*worker);
  EXPECT_EQ(of_worker, 1000);
  EXPECT_LT(of_zygote, of_worker);
  EXPECT_GT(of_zygote, ScoreOf(getpid()));
}

TEST(OutOfMemory, AWorkerOfTritonGoesBeforeItsZygote) {
  const TempDirectory directory;
  ExpectWorkersGoFirst(
      TritonZygoteCommand(*RealTriton(), WorkerScript(), directory.path(), InstalledJemalloc()),
      directory.path());
}

TEST(OutOfMemory, ANativeWorkerGoesBeforeItsZygote) {
  const TempDirectory directory;
  ExpectWorkersGoFirst(
      NativeZygoteCommand(*RealPtxas(), NativeWorker(), directory.path(), InstalledJemalloc()),
      directory.path());
}

}  // namespace
}  // namespace kiln
