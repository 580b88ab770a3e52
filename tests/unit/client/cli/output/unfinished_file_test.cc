#include "client/cli/output/unfinished_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>

#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

enum class FileSystem { kWithNamelessFiles, kWithoutThem };

// From now on this thread finds no file system with files without a name.
void RefuseNamelessFiles() {
  const uint64_t flag = O_TMPFILE & ~O_DIRECTORY;
  const scmp_arg_cmp has_flag{.arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = flag, .datum_b = flag};
  const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  ASSERT_EQ(
      seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(openat), 1, &has_flag),
      0);
  ASSERT_EQ(seccomp_load(filter), 0);
  seccomp_release(filter);
}

class UnfinishedFileTest : public ::testing::TestWithParam<FileSystem> {
 protected:
  // A filter binds its thread for good, so each test has a thread of its own.
  void InItsFileSystem(const std::function<void()>& act) {
    std::thread([&] {
      if (GetParam() == FileSystem::kWithoutThem) RefuseNamelessFiles();
      act();
    }).join();
  }
  std::unique_ptr<UnfinishedFile> Create() {
    auto file = UnfinishedFile::Create(Path(), 0600);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  std::string Path() const { return directory_.File("kernels"); }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  TempDirectory directory_;
};

TEST_P(UnfinishedFileTest, AppearsWithItsNameAndModeWhenItIsFinished) {
  InItsFileSystem([this] {
    const auto file = Create();
    EXPECT_TRUE(file->Write("one ").ok());
    EXPECT_TRUE(file->Write("two").ok());
    EXPECT_EQ(file->bytes(), 7u);
    EXPECT_FALSE(std::filesystem::exists(Path()));
    EXPECT_TRUE(file->Finish().ok());
    EXPECT_EQ(ReadFileOrDie(Path()), "one two");
    struct stat status {};
    ASSERT_EQ(::stat(Path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  });
  EXPECT_THAT(Names(), UnorderedElementsAre("kernels"));
}

TEST_P(UnfinishedFileTest, ReplacesAFileOfItsName) {
  WriteFileOrDie(Path(), "earlier");
  InItsFileSystem([this] {
    const auto file = Create();
    EXPECT_TRUE(file->Write("later").ok());
    EXPECT_EQ(ReadFileOrDie(Path()), "earlier");
    EXPECT_TRUE(file->Finish().ok());
  });
  EXPECT_EQ(ReadFileOrDie(Path()), "later");
  EXPECT_THAT(Names(), UnorderedElementsAre("kernels"));
}

TEST_P(UnfinishedFileTest, LeavesNothingWhereItIsNotFinished) {
  InItsFileSystem([this] { EXPECT_TRUE(Create()->Write("half").ok()); });
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_P(UnfinishedFileTest, ADirectoryOfItsNameStays) {
  std::filesystem::create_directory(Path());
  InItsFileSystem([this] { EXPECT_FALSE(Create()->Finish().ok()); });
  EXPECT_THAT(Names(), UnorderedElementsAre("kernels"));
}

TEST_P(UnfinishedFileTest, OfALinkThatAPersonNamesTheTargetIsReplaced) {
  WriteFileOrDie(directory_.File("target"), "old");
  std::filesystem::create_symlink("target", Path());
  InItsFileSystem([this] {
    const auto file = UnfinishedFile::Create(FollowLinks(Path()), 0600);
    EXPECT_TRUE((*file)->Write("new").ok() && (*file)->Finish().ok());
  });
  EXPECT_TRUE(std::filesystem::is_symlink(Path()));
  EXPECT_EQ(ReadFileOrDie(directory_.File("target")), "new");
}

TEST_P(UnfinishedFileTest, APipeIsRefusedAndStays) {
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  InItsFileSystem([this] {
    const auto file = UnfinishedFile::Create(Path(), 0600);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
  });
  EXPECT_TRUE(std::filesystem::is_fifo(Path()));
}

TEST_P(UnfinishedFileTest, AFolderThatIsNotThereIsNamed) {
  InItsFileSystem([this] {
    const auto file = UnfinishedFile::Create(directory_.File("none/kernels"), 0600);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound) << file.status();
    EXPECT_THAT(std::string(file.status().message()), ::testing::HasSubstr("none/kernels"));
  });
}

INSTANTIATE_TEST_SUITE_P(FileSystems, UnfinishedFileTest,
                         ::testing::Values(FileSystem::kWithNamelessFiles,
                                           FileSystem::kWithoutThem),
                         [](const auto& tried) {
                           return tried.param == FileSystem::kWithNamelessFiles
                                      ? "WithNamelessFiles"
                                      : "WithoutNamelessFiles";
                         });

TEST(KilledUnfinishedFileTest, LeavesNothing) {
  const TempDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto file = UnfinishedFile::Create(directory.File("kernels"), 0600);
    if (file.ok() && (*file)->Write("half").ok()) ::raise(SIGKILL);
    ::_exit(1);
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  ASSERT_TRUE(WIFSIGNALED(ended));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace kiln::cli
