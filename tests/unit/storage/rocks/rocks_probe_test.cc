// What is damage and what is not, when opening a store goes wrong in ways that files cannot show.
#include "storage/rocks/rocks_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "storage/base/unique_fd.h"
#include "tests/unit/storage/rocks/rocks_fixture.h"

namespace kiln {
namespace {

using absl::StatusCode;
namespace fs = std::filesystem;

// A file system in which something happens whenever a manifest or a log is opened to be read.
class TroubledFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using Trouble = std::function<rocksdb::IOStatus()>;

  explicit TroubledFileSystem(Trouble trouble)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), trouble_(std::move(trouble)) {}
  const char* Name() const override { return "TroubledFileSystem"; }
  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus status = trouble_();
    if (!status.ok()) return status;
    return FileSystemWrapper::NewSequentialFile(name, options, result, debug);
  }

 private:
  const Trouble trouble_;
};

rocksdb::IOStatus Hang() {
  while (true) pause();
}

class RocksProbeTest : public RocksFixture {
 protected:
  RocksProbeTest() {
    Reopen();
    EXPECT_TRUE(Put(made_).ok());
    Close();
  }

  // In the processes that this one forks, not in this one.
  void TroubleChildren(TroubledFileSystem::Trouble trouble) {
    env_ =
        rocksdb::NewCompositeEnv(std::make_shared<TroubledFileSystem>([trouble, test = getpid()] {
          return getpid() == test ? rocksdb::IOStatus::OK() : trouble();
        }));
  }
  absl::StatusOr<OpenedRocksStore> Open() {
    RocksStoreOptions troubled = options();
    troubled.open_time_max = open_time_max_;
    troubled.stop_fd = stop_fd_;
    troubled.env = env_.get();
    return OpenRocksStore(troubled, filesystem_, clock_);
  }
  void ExpectLeftAlone(StatusCode code) {
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), code) << status;
    Reopen();
    EXPECT_EQ(report_.set_aside, "");
    ExpectStored(made_);
  }
  void ExpectSetAside() {
    const auto opened = Open();
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(fs::exists(opened->report.set_aside));
    EXPECT_TRUE(opened->report.is_new);
  }

  const MadeArtifact made_ = MakeArtifact("kept");
  std::chrono::milliseconds open_time_max_ = limits::kStoreOpenTime;
  int stop_fd_ = -1;
  std::unique_ptr<rocksdb::Env> env_;
};

TEST_F(RocksProbeTest, KilledChildIsNoDamage) {
  TroubleChildren([] {
    raise(SIGKILL);
    return rocksdb::IOStatus::OK();
  });
  ExpectLeftAlone(StatusCode::kUnavailable);
}

TEST_F(RocksProbeTest, AnOpenThatCrashesIsDamage) {
  TroubleChildren([] {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return rocksdb::IOStatus::OK();
  });
  ExpectSetAside();
}

TEST_F(RocksProbeTest, AnOpenThatHangsTwiceIsDamage) {
  open_time_max_ = std::chrono::milliseconds(20);
  TroubleChildren(Hang);
  ExpectSetAside();
}

TEST_F(RocksProbeTest, AnOpenThatHangsEndsWhenTheDaemonIsAskedToStop) {
  TroubleChildren(Hang);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd stop(ends[0]);
  const UniqueFd asked(ends[1]);
  ASSERT_EQ(write(asked.get(), "", 1), 1);
  stop_fd_ = stop.get();
  ExpectLeftAlone(StatusCode::kCancelled);
}

TEST_F(RocksProbeTest, AnOpenThatHangsOnceIsNot) {
  const std::string once = directory_.File("hung");
  // Time enough for the second attempt on a busy machine.
  open_time_max_ = std::chrono::seconds(5);
  TroubleChildren([once] {
    if (fs::exists(once)) return rocksdb::IOStatus::OK();
    WriteFileOrDie(once, "");
    return Hang();
  });
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->report.set_aside, "");
}

TEST_F(RocksProbeTest, LackOfMemoryOrDescriptorsIsNoDamage) {
  for (const int lacking : {ENOMEM, EMFILE, ENFILE}) {
    TroubleChildren([lacking] {
      return rocksdb::IOStatus::IOError("While opening a file", std::strerror(lacking));
    });
    ExpectLeftAlone(StatusCode::kResourceExhausted);
    Close();
  }
}

TEST_F(RocksProbeTest, UnknownErrorIsNoDamage) {
  TroubleChildren([] { return rocksdb::IOStatus::InvalidArgument("unforeseen"); });
  ExpectLeftAlone(StatusCode::kInternal);
}

TEST_F(RocksProbeTest, UnreadableSectorIsDamage) {
  TroubleChildren([] { return rocksdb::IOStatus::IOError("read", std::strerror(EIO)); });
  ExpectSetAside();
}

// What the daemon opens afterwards has been opened for writing, and its log is in tables.
TEST_F(RocksProbeTest, TheChildReplaysTheLog) {
  const auto tables = [this] {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(path())) {
      if (entry.path().extension() == ".sst") ++count;
    }
    return count;
  };
  EXPECT_EQ(tables(), 0);
  const absl::Status probed = ProbeRocksStore(path(), kExpectedBytes, {limits::kStoreOpenTime});
  EXPECT_TRUE(probed.ok()) << probed;
  EXPECT_GT(tables(), 0);
}

}  // namespace
}  // namespace kiln
