#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <sstream>
#include <thread>
#include <utility>

#include "client/cli/command_line.h"
#include "client/cli/output/console.h"
#include "client/cli/requests/bundle_writer.h"
#include "storage/bundle/zstd_frame.h"
#include "tests/testing/pause.h"
#include "tests/unit/client/fake_daemon.h"

namespace {

std::atomic<int> g_files_synced = 0;

}  // namespace

// Takes the place of the C library's in this program.
extern "C" int fsync(int file) {
  ++g_files_synced;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace kiln::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kBundleBlocks = 40;  // and the end
constexpr int kAnswersAheadMax = 8;
constexpr int kCallsAtOnceMax = 3;

// `kiln export` and `kiln import` in this process, against a daemon that does as it is told.
class BundleCommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto writer = *BundleWriter::Create(path_, std::nullopt);
    for (int i = 0; i < kBundleBlocks; ++i) {
      ASSERT_TRUE(writer->Add(*CompressFrame("block"), /*artifacts=*/1).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }

  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--root", daemon_.root()});
    err_.str("");
    return RunCommandLine(std::move(arguments), out_, err_, {});
  }

  FakeDaemon daemon_;
  TempDirectory files_;
  const std::string path_ = files_.File("x.bundle");
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(BundleCommandsTest, AnotherVersionsDaemonIsNamedWhereABundleComesToNothing) {
  // What a daemon says that knows nothing of a bundle's end, or of what is to be exported.
  const std::vector<std::vector<std::string>> commands = {
      {"import", path_}, {"export", "--all", "-o", files_.File("new.bundle")}};
  for (const auto& command : commands) {
    daemon_.admin().stats.set_version("0.0.1");
    EXPECT_NE(Run(command), 0);
    const std::string told = err_.str();
    const std::string before_own = "kilnd is 0.0.1, and this is kiln ";
    ASSERT_THAT(told, HasSubstr(before_own));
    const size_t own = told.find(before_own) + before_own.size();
    daemon_.admin().stats.set_version(told.substr(own, told.find(':', own) - own));
    EXPECT_NE(Run(command), 0);
    EXPECT_THAT(err_.str(), Not(HasSubstr("that may be why")));
  }
}

TEST_F(BundleCommandsTest, AnExportNamesWhatIsDamagedOrTooLarge) {
  daemon_.admin().exported.set_frame(*CompressFrame("block"));
  daemon_.admin().exported.set_artifacts(1);
  daemon_.admin().exported.add_missing_keys(std::string(32, '\xab'));
  daemon_.admin().exported.add_too_large_keys(std::string(32, '\xcd'));
  EXPECT_EQ(Run({"export", "--all", "--target", "cuda:90", "-o", files_.File("new.bundle")}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("  evicted meanwhile, or damaged: abababab"));
  EXPECT_THAT(err_.str(), HasSubstr("  left out, larger than a bundle takes: cdcdcdcd"));
}

TEST_F(BundleCommandsTest, AnImportWaitsForTheAnswerOfAnEarlierBlock) {
  std::atomic<int> asked = 0;
  const auto gate = std::make_shared<Gate>();
  daemon_.admin().on_import = [&asked, gate](const admin::v1::ImportBlockRequest& request,
                                             admin::v1::ImportBlockResponse* response) {
    ++asked;
    if (request.number() == 0) gate->Await();
    if (request.number() < kBundleBlocks) {
      response->add_artifacts()->set_result(admin::v1::ImportedArtifact::STORED);
    } else {
      response->mutable_end()->set_artifacts(kBundleBlocks);
    }
    return grpc::Status::OK;
  };
  int code = -1;
  std::thread import([&] { code = Run({"import", path_}); });
  while (asked < 1 + kAnswersAheadMax) Pause();
  Pause(std::chrono::milliseconds(100));  // long enough for many more
  EXPECT_LE(asked, kAnswersAheadMax + kCallsAtOnceMax);
  gate->Open();
  import.join();
  EXPECT_EQ(code, 0) << err_.str();
  EXPECT_EQ(asked, kBundleBlocks + 1);
  EXPECT_THAT(err_.str(), HasSubstr("40 artifacts stored"));
}

TEST_F(BundleCommandsTest, AnImportedManifestIsOnTheDisk) {
  daemon_.admin().on_import = [](const admin::v1::ImportBlockRequest& request,
                                 admin::v1::ImportBlockResponse* response) {
    response->set_manifest("m");
    if (request.number() == kBundleBlocks) response->mutable_end()->set_artifacts(0);
    return grpc::Status::OK;
  };
  const int before = g_files_synced;
  EXPECT_EQ(Run({"import", path_, "-o", files_.File("job.kiln")}), 0) << err_.str();
  EXPECT_EQ(std::filesystem::file_size(files_.File("job.kiln")), kBundleBlocks + 1);
  EXPECT_EQ(g_files_synced, before + 1);
}

}  // namespace
}  // namespace kiln::cli
