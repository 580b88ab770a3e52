// A real disk that is full, under a real store and a real daemon.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/rpc/metric_value.h"
#include "kiln/admin/v1/admin_service.grpc.pb.h"
#include "storage/base/clock.h"
#include "storage/base/limits.h"
#include "storage/rocks/rocks_open.h"
#include "tests/integration/daemon/raw_call.h"
#include "tests/integration/daemon/small_disk.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/pause.h"
#include "tests/testing/simple_kernel.h"
#include "tests/testing/temporary_daemon.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kDiskBytes = 64 * limits::kMiB;

std::set<std::string> Names(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.insert(entry.path().filename());
  }
  return names;
}

class FullDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SmallDisk::WhyNot().empty()) GTEST_SKIP() << SmallDisk::WhyNot();
    // A small store has small buffers: what RocksDB sets aside for its log before the disk is full
    // is soon used up. No floor, so that the disk itself is what says no.
    daemon_.emplace(
        std::vector<std::string>{"--set", "store.size=16MiB", "--set", "store.free_disk=0B"});
    disk_.emplace(State(), kDiskBytes);
  }

  std::string State() const { return daemon_->root() + "/state"; }

  admin::v1::GetStatsResponse Stats() {
    grpc::ClientContext context;
    admin::v1::GetStatsResponse stats;
    const auto stub = admin::v1::AdminService::NewStub(ConnectTo(daemon_->admin_socket()));
    EXPECT_TRUE(stub->GetStats(&context, {}, &stats).ok());
    return stats;
  }
  void AwaitState(const std::string& state) {
    while (Stats().state() != state) Pause(std::chrono::milliseconds(20));
  }
  // What an operator is told.
  std::string Doctor() const {
    const std::string command = std::string(KILN_PATH) + " --root " + daemon_->root() + " doctor";
    FILE* const pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string said;
    std::array<char, 4096> buffer;
    while (const size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) {
      said.append(buffer.data(), size);
    }
    pclose(pipe);
    return said;
  }

  // Fails the test where there is no answer, or another than there was before.
  v1::Outcome Compile(int number) {
    if (client_ == nullptr) client_ = daemon_->Connect();
    const auto answer = client_->Compile(SimpleKernel(number));
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return v1::OUTCOME_UNSPECIFIED;
    const std::string& binary = answer->stages(0).content();
    EXPECT_THAT(binary, HasSubstr("ELF"));
    const auto [known, is_new] = binaries_.try_emplace(number, binary);
    if (!is_new) {
      EXPECT_EQ(binary, known->second) << "kernel " << number;
    }
    return answer->outcome();
  }
  // kill -9, and a new one on the same directory.
  void Restart() {
    client_.reset();
    daemon_->Kill();
    daemon_->Start();
  }

  std::optional<TemporaryDaemon> daemon_;
  std::optional<SmallDisk> disk_;
  std::unique_ptr<Client> client_;
  std::map<int, std::string> binaries_;
};

TEST_F(FullDiskTest, ADaemonWhoseDiskFillsUpGoesOnAndStoresAgainOnceThereIsSpace) {
  daemon_->Start();
  constexpr int kBefore = 5;
  int next = 1;
  while (next <= kBefore) EXPECT_EQ(Compile(next++), v1::OUTCOME_COMPILED);
  disk_->FillUp();
  while (Stats().state() != "degraded") {
    ASSERT_LT(next, 2000) << "the disk is full, and everything is stored";
    ASSERT_EQ(Compile(next++), v1::OUTCOME_COMPILED);
  }
  EXPECT_THAT(Stats().state_reason(), HasSubstr("full"));
  EXPECT_THAT(Doctor(), HasSubstr("is full"));

  // Hits go on; what is no hit was not stored, and is compiled as often as it is asked for.
  std::vector<int> stored;
  for (int number = 1; number < next; ++number) {
    if (Compile(number) == v1::OUTCOME_HIT) stored.push_back(number);
  }
  ASSERT_GE(stored.size(), size_t{kBefore});
  EXPECT_EQ(stored[kBefore - 1], kBefore);
  ASSERT_LT(stored.size(), static_cast<size_t>(next - 1));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Compile(next), v1::OUTCOME_COMPILED);

  disk_->Empty();
  AwaitState("serving");
  EXPECT_EQ(Compile(next), v1::OUTCOME_COMPILED);
  EXPECT_EQ(Compile(next), v1::OUTCOME_HIT);
  stored.push_back(next);

  Restart();
  for (const int number : stored) EXPECT_EQ(Compile(number), v1::OUTCOME_HIT) << number;
  EXPECT_EQ(daemon_->Stop(), 0) << daemon_->Log();
}

TEST_F(FullDiskTest, ADaemonStartsOnAFullDiskAndStoresOnceThereIsSpace) {
  daemon_->Start();
  for (const int number : {1, 2}) EXPECT_EQ(Compile(number), v1::OUTCOME_COMPILED);
  // Its rows are in the log only, which an open for writing would have to turn into tables.
  client_.reset();
  daemon_->Kill();
  disk_->FillUp();

  daemon_->Start();
  for (const int number : {1, 2}) EXPECT_EQ(Compile(number), v1::OUTCOME_HIT);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Compile(3), v1::OUTCOME_COMPILED);
  EXPECT_EQ(Stats().state(), "degraded");
  EXPECT_EQ(MetricValue(Stats(), "artifacts"), 2u);
  EXPECT_THAT(Doctor(), HasSubstr("free some space"));
  EXPECT_THAT(daemon_->Log(), HasSubstr("error nothing is stored until there is space"));
  Restart();
  EXPECT_EQ(Compile(1), v1::OUTCOME_HIT);

  disk_->Empty();
  AwaitState("serving");
  EXPECT_EQ(Compile(3), v1::OUTCOME_COMPILED);
  EXPECT_EQ(Compile(3), v1::OUTCOME_HIT);
  Restart();
  for (const int number : {1, 2, 3}) EXPECT_EQ(Compile(number), v1::OUTCOME_HIT);
  EXPECT_THAT(Names(State()), UnorderedElementsAre("lock", "store", "toolchains"));
}

TEST_F(FullDiskTest, ADaemonStartsForTheFirstTimeOnAFullDisk) {
  disk_->FillUp();
  daemon_->Start();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Compile(1), v1::OUTCOME_COMPILED);
  EXPECT_EQ(Stats().state(), "degraded");
  disk_->Empty();
  AwaitState("serving");
  EXPECT_EQ(Compile(1), v1::OUTCOME_COMPILED);
  EXPECT_EQ(Compile(1), v1::OUTCOME_HIT);
  Restart();
  EXPECT_EQ(Compile(1), v1::OUTCOME_HIT);
  EXPECT_THAT(Names(State()), UnorderedElementsAre("lock", "store", "toolchains"));
}

// Workers have a tmpfs each.
TEST_F(FullDiskTest, AFullRunDirectoryHoldsNoCompileUp) {
  fs::create_directory(daemon_->root() + "/run");
  disk_.emplace(daemon_->root() + "/run", kDiskBytes);
  daemon_->Start();
  EXPECT_EQ(Compile(1), v1::OUTCOME_COMPILED);
  disk_->FillUp();
  for (int i = 2; i < 5; ++i) EXPECT_EQ(Compile(i), v1::OUTCOME_COMPILED);
  EXPECT_EQ(MetricValue(Stats(), "sources_quarantined"), 0u);
}

// The store by itself, with so many kilobytes left.
class AlmostFullDiskTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    if (!SmallDisk::WhyNot().empty()) GTEST_SKIP() << SmallDisk::WhyNot();
    fs::create_directory(Place());
    disk_.emplace(Place(), kDiskBytes);
  }

  std::string Place() const { return directory_.File("disk"); }

  // What a process does with the store before it dies without closing it; empty: it did all of it.
  // Only such processes open it: RocksDB's threads do not survive a fork.
  std::string InAProcess(const std::function<std::string(OpenedRocksStore&)>& act) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto opened =
          OpenRocksStore({.path = Place() + "/store", .expected_bytes = 16 * limits::kMiB},
                         OsFilesystem(), SystemClock());
      const std::string failure = opened.ok() ? act(*opened) : opened.status().ToString();
      const ssize_t written = write(ends[1], failure.data(), failure.size());
      _exit(written == static_cast<ssize_t>(failure.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::array<char, 4096> buffer;
    const ssize_t size = read(ends[0], buffer.data(), buffer.size());
    close(ends[0]);
    int ended = 0;
    EXPECT_EQ(waitpid(child, &ended, 0), child);
    if (!WIFEXITED(ended)) return "ended by signal " + std::to_string(WTERMSIG(ended));
    return size > 0 ? std::string(buffer.data(), static_cast<size_t>(size)) : "";
  }

  static MadeArtifact Made(int number) { return MakeArtifact(std::to_string(number), 20'000); }
  static std::string PutAll(OpenedRocksStore& opened) {
    for (int i = 0; i < kArtifacts; ++i) {
      const MadeArtifact made = Made(i);
      const absl::Status put = opened.store->index().Put({}, made.record, made.blobs);
      if (!put.ok()) return put.ToString();
    }
    return "";
  }
  static std::string ReadAll(OpenedRocksStore& opened) {
    if (!opened.report.damage.empty()) return "taken for damaged: " + opened.report.damage;
    for (int i = 0; i < kArtifacts; ++i) {
      const MadeArtifact made = Made(i);
      const auto found = opened.store->index().Get({}, made.record.key);
      if (!found.ok()) return found.status().ToString();
      for (const Blob& blob : made.blobs) {
        const auto got = opened.store->blobs().GetBlob({}, blob.digest());
        if (!got.ok()) return got.status().ToString();
      }
    }
    return "";
  }
  static std::string OnlyOpen(OpenedRocksStore& opened) {
    return opened.report.damage.empty() ? "" : "taken for damaged: " + opened.report.damage;
  }

  static constexpr int kArtifacts = 20;
  const TempDirectory directory_;
  std::optional<SmallDisk> disk_;
};

TEST_P(AlmostFullDiskTest, KeepsEveryArtifactAndSetsNothingAside) {
  ASSERT_EQ(InAProcess(PutAll), "");
  disk_->FillUp(GetParam() * limits::kKiB);
  // The second one finds what the first has left behind.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(InAProcess(ReadAll), "");
  disk_->Empty();
  EXPECT_EQ(InAProcess(ReadAll), "");
  EXPECT_EQ(InAProcess(PutAll), "");
  EXPECT_THAT(Names(Place()), ElementsAre("store"));
}

TEST_P(AlmostFullDiskTest, AStoreThatIsNewIsMadeSoonerOrLater) {
  disk_->FillUp(GetParam() * limits::kKiB);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(InAProcess(OnlyOpen), "");
  disk_->Empty();
  EXPECT_EQ(InAProcess(PutAll), "");
  EXPECT_EQ(InAProcess(ReadAll), "");
  EXPECT_THAT(Names(Place()), ElementsAre("store"));
}

// From nothing at all to enough for everything that an open writes.
INSTANTIATE_TEST_SUITE_P(KiBLeft, AlmostFullDiskTest,
                         ::testing::Values(0, 4, 8, 16, 64, 256, 512, 1024, 1536, 2048, 4096));

}  // namespace
}  // namespace kiln
