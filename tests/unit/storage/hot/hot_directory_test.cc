#include "storage/hot/hot_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "tests/unit/storage/hot/hot_directory_fixture.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kBytesOfOne = 1481;  // of the files of MakeArtifact(name of one letter)

class HotDirectoryTest : public HotDirectoryFixture {
 protected:
  void ReopenWith(uint64_t bytes_max, size_t files_max = limits::kHotFilesMax) {
    options_.bytes_max = bytes_max;
    options_.files_max = files_max;
    Reopen();
  }
  // Nothing can be renamed to where a directory with something in it stands.
  void BlockPathOf(const Digest& key) { fs::create_directories(PathOf(key) + "/blocked"); }
  static mode_t ModeOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  // REQUIRES: this process is root's.
  static bool MayRead(uid_t uid, const fs::path& file) {
    const pid_t child = fork();
    if (child == 0) {
      const bool is_ready = chdir(file.parent_path().c_str()) == 0 && setgroups(0, nullptr) == 0 &&
                            setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0;
      _exit(!is_ready ? 2 : open(file.filename().c_str(), O_RDONLY) < 0 ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_NE(WEXITSTATUS(status), 2);
    return status == 0;
  }
};

TEST_F(HotDirectoryTest, APutArtifactCanBeMappedByItsKey) {
  const MadeArtifact made = PutOne("add");
  ExpectPublished(made);
  EXPECT_TRUE(hot().NoteUse(made.record.key));
  EXPECT_EQ(hot().Stats().published, 1u);
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, TheSizeThatTheTestsCountWithIsRight) {
  PutOne("a");
  EXPECT_EQ(hot().Stats().bytes, kBytesOfOne);
}

TEST_F(HotDirectoryTest, ARemovedArtifactGoes) {
  const MadeArtifact made = PutOne("add");
  hot().OnRemove(made.record.key);
  EXPECT_FALSE(IsThere(made));
  EXPECT_FALSE(hot().NoteUse(made.record.key));
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, RemovingWhatWasNeverPublishedIsFine) {
  hot().OnRemove(MadeKey("never"));
  EXPECT_EQ(hot().Stats().failures, 0u);
}

TEST_F(HotDirectoryTest, EarlierStagesHaveAFileOfTheirOwn) {
  const MadeArtifact made = PutOne("add");
  const std::string path = PathOf(made.record.key) + ".stages";
  auto mapped = MappedArtifact::Open(path, made.record.key);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->layout().document, made.blobs.back().digest().Bytes());
  ASSERT_EQ(mapped->layout().stages.size(), 1u);
  EXPECT_EQ(mapped->layout().stages[0].name, "ptx");
  EXPECT_EQ(mapped->layout().stages[0].bytes, made.blobs.front().bytes());
  EXPECT_EQ(ModeOf(path), 0444u);
  hot().OnRemove(made.record.key);
  EXPECT_FALSE(fs::exists(path));
}

// It has a user's source, and all users read the directory.
TEST_F(HotDirectoryTest, TheRequestIsNotPublished) {
  MadeArtifact made = MakeArtifact("a");
  const Blob request = Blob::FromBytes("the source");
  made.record.stages.insert(made.record.stages.begin(),
                            {std::string(kRequestStage), request.digest(), request.size_bytes()});
  made.blobs.push_back(request);
  hot().OnPut(made.record, made.blobs);
  const auto mapped = MappedArtifact::Open(PathOf(made.record.key) + ".stages", made.record.key);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_EQ(mapped->layout().stages.size(), 1u);
  EXPECT_EQ(mapped->layout().stages[0].name, "ptx");
}

TEST_F(HotDirectoryTest, StagesThatAHitDoesNotHaveAreNotPublished) {
  const MadeArtifact made = MakeArtifact("add");
  hot().Publish(made.record, {&made.blobs[1], 1});
  EXPECT_FALSE(fs::exists(PathOf(made.record.key) + ".stages"));
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, AUserCacheEntryOfTheDaemonsUserIsForThatUserAlone) {
  const MadeArtifact own = MakeOwn(geteuid());
  hot().OnPut(own.record, own.blobs);
  ExpectPublished(own);
  EXPECT_EQ(ModeOf(PathOf(own.record.key)), 0400u);
  hot().OnRemove(own.record.key);
  EXPECT_FALSE(IsThere(own));
}

TEST_F(HotDirectoryTest, AUserCacheEntryOfAnotherUserIsForThatUserAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be other users";
  const MadeArtifact own = MakeOwn(12345);
  hot().OnPut(own.record, own.blobs);
  EXPECT_EQ(hot().Stats().failures, 0u);
  if (!IsThere(own)) GTEST_SKIP() << "this file system has no access lists";
  EXPECT_TRUE(MayRead(12345, PathOf(own.record.key)));
  EXPECT_FALSE(MayRead(12346, PathOf(own.record.key)));
  EXPECT_EQ(ModeOf(PathOf(own.record.key)) & 0333, 0u);  // nobody writes, no others read
  EXPECT_TRUE(MayRead(12346, PathOf(PutOne("everybody's").record.key)));
}

TEST_F(HotDirectoryTest, AUserCacheEntryThatSaysNotWhoseItIsIsNotPublished) {
  MadeArtifact own = MakeOwn(12345);
  own.record.document = "damaged";
  hot().OnPut(own.record, own.blobs);
  EXPECT_FALSE(IsThere(own));
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, ASecondPutReplacesTheFirst) {
  PutOne("a");
  MadeArtifact second = MakeArtifact("second", 5000);
  second.record.key = MadeKey("a");
  hot().OnPut(second.record, second.blobs);
  ExpectPublished(second);
  EXPECT_EQ(hot().Stats().files, 1u);
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, AHitIsPublishedOnce) {
  const MadeArtifact made = MakeArtifact("add");
  hot().Publish(made.record, {&made.blobs[1], 1});
  ExpectPublished(made);
  hot().Publish(made.record, {&made.blobs[1], 1});
  EXPECT_EQ(hot().Stats().published, 1u);
}

// It would never return if it did.
TEST_F(HotDirectoryTest, AUseWaitsForNoRenaming) {
  const MadeArtifact made = PutOne("a");
  bool is_noted = false;
  filesystem_.OnRename([&] { is_noted = hot().NoteUse(made.record.key); });
  ExpectPublished(PutOne("b"));
  EXPECT_TRUE(is_noted);
}

TEST_F(HotDirectoryTest, AHitFoundBeforeItsRemovalIsNotPublishedAfterIt) {
  const MadeArtifact made = PutOne("add");
  hot().OnRemove(made.record.key);
  hot().Publish(made.record, made.blobs);
  EXPECT_FALSE(IsThere(made));
  clock_.Advance(limits::kRecentChangesAge);
  hot().Publish(made.record, made.blobs);
  ExpectPublished(made);
}

TEST_F(HotDirectoryTest, APutAfterARemovalIsPublishedAtOnce) {
  const MadeArtifact made = PutOne("add");
  hot().OnRemove(made.record.key);
  hot().OnPut(made.record, made.blobs);
  ExpectPublished(made);
}

TEST_F(HotDirectoryTest, AnOldHitDoesNotReplaceANewerPut) {
  const MadeArtifact old = MakeArtifact("a");
  MadeArtifact renewed = MakeArtifact("renewed");
  renewed.record.key = old.record.key;
  hot().OnPut(renewed.record, renewed.blobs);
  hot().Publish(old.record, old.blobs);
  ExpectPublished(renewed);
}

TEST_F(HotDirectoryTest, FillsUpToTheBoundWithoutEvictions) {
  ReopenWith(3 * kBytesOfOne);
  const MadeArtifact a = PutOne("a"), b = PutOne("b"), c = PutOne("c");
  EXPECT_TRUE(IsThere(a) && IsThere(b) && IsThere(c));
  EXPECT_EQ(hot().Stats().evicted, 0u);
}

TEST_F(HotDirectoryTest, EvictsTheOldestWhereOneMoreDoesNotFit) {
  ReopenWith(3 * kBytesOfOne);
  const MadeArtifact a = PutOne("a"), b = PutOne("b"), c = PutOne("c"), d = PutOne("d");
  EXPECT_FALSE(IsThere(a));
  EXPECT_TRUE(IsThere(b) && IsThere(c) && IsThere(d));
  EXPECT_EQ(hot().Stats().evicted, 1u);
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, UsedArtifactsStayLonger) {
  ReopenWith(3 * kBytesOfOne);
  const MadeArtifact a = PutOne("a"), b = PutOne("b"), c = PutOne("c");
  EXPECT_TRUE(hot().NoteUse(a.record.key));
  const MadeArtifact d = PutOne("d");
  EXPECT_TRUE(IsThere(a) && IsThere(c) && IsThere(d));
  EXPECT_FALSE(IsThere(b));
}

TEST_F(HotDirectoryTest, TheNumberOfFilesIsBoundedToo) {
  ReopenWith(limits::kMiB, 2);
  const MadeArtifact a = PutOne("a"), b = PutOne("b"), c = PutOne("c");
  EXPECT_FALSE(IsThere(a));
  EXPECT_TRUE(IsThere(b) && IsThere(c));
}

TEST_F(HotDirectoryTest, ArtifactLargerThanTheDirectoryEvictsNothing) {
  ReopenWith(3 * kBytesOfOne);
  const MadeArtifact a = PutOne("a");
  const MadeArtifact huge = PutOne("huge", 4 * kBytesOfOne);
  EXPECT_FALSE(IsThere(huge));
  EXPECT_TRUE(IsThere(a));
  EXPECT_EQ(hot().Stats().failures, 0u);
}

TEST_F(HotDirectoryTest, ReplacementThatIsTooLargeRemovesTheOldFile) {
  ReopenWith(3 * kBytesOfOne);
  const MadeArtifact a = PutOne("a");
  MadeArtifact huge = MakeArtifact("huge", 4 * kBytesOfOne);
  huge.record.key = a.record.key;
  hot().OnPut(huge.record, huge.blobs);
  EXPECT_FALSE(IsThere(a));
}

TEST_F(HotDirectoryTest, ReplacementDoesNotEvictItself) {
  ReopenWith(2 * kBytesOfOne);
  const MadeArtifact a = PutOne("a"), b = PutOne("b");
  MadeArtifact grown = MakeArtifact("grown", 1500);
  grown.record.key = a.record.key;
  hot().OnPut(grown.record, grown.blobs);
  ExpectPublished(grown);
  EXPECT_FALSE(IsThere(b));
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, ABoundOfZeroPublishesNothing) {
  ReopenWith(0);
  EXPECT_FALSE(IsThere(PutOne("a")));
  EXPECT_EQ(hot().Stats().failures, 0u);
}

TEST_F(HotDirectoryTest, ReaderKeepsARemovedFileMapped) {
  ReopenWith(kBytesOfOne);
  const MadeArtifact a = PutOne("a");
  const auto mapped = MappedArtifact::Open(PathOf(a.record.key), a.record.key);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  PutOne("b");
  ASSERT_FALSE(IsThere(a));
  EXPECT_EQ(mapped->layout().stages.back().bytes, a.blobs[1].bytes());
}

TEST_F(HotDirectoryTest, AReaderOfAReplacedFileKeepsTheOldOne) {
  const MadeArtifact old = PutOne("a");
  const auto mapped = MappedArtifact::Open(PathOf(old.record.key), old.record.key);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  MadeArtifact renewed = MakeArtifact("renewed");
  renewed.record.key = old.record.key;
  hot().OnPut(renewed.record, renewed.blobs);
  EXPECT_EQ(mapped->layout().stages.back().bytes, old.blobs[1].bytes());
}

TEST_F(HotDirectoryTest, ARestartRemovesTheFilesOfTheEarlierDaemon) {
  const MadeArtifact a = PutOne("a");
  WriteFileOrDie(path_ + "/.tmp-12", "half");
  Reopen();
  EXPECT_FALSE(IsThere(a));
  EXPECT_TRUE(fs::is_empty(path_));
  EXPECT_FALSE(hot().NoteUse(a.record.key));
  EXPECT_EQ(hot().Stats().files, 0u);
}

TEST_F(HotDirectoryTest, ARestartFollowsNoLinksAndLeavesForeignFilesAlone) {
  fs::create_directories(path_ + "/photos/summer");
  WriteFileOrDie(path_ + "/README", "hello");
  fs::create_directory(temp_.File("elsewhere"));
  WriteFileOrDie(temp_.File("elsewhere/precious"), "data");
  fs::create_directory_symlink(temp_.File("elsewhere"), path_ + "/00");
  Reopen();
  EXPECT_FALSE(fs::is_symlink(path_ + "/00"));
  EXPECT_EQ(ReadFileOrDie(temp_.File("elsewhere/precious")), "data");
  EXPECT_TRUE(fs::exists(path_ + "/photos/summer"));
  EXPECT_TRUE(fs::exists(path_ + "/README"));
}

TEST_F(HotDirectoryTest, FilesAreReadableByAllAndReadOnly) {
  const mode_t before = umask(022);  // the daemon's
  const MadeArtifact made = PutOne("add");
  umask(before);
  EXPECT_EQ(ModeOf(path_), 0755u);
  EXPECT_EQ(ModeOf(fs::path(PathOf(made.record.key)).parent_path()), 0755u);
  EXPECT_EQ(ModeOf(PathOf(made.record.key)), 0444u);
}

TEST_F(HotDirectoryTest, AWritableDirectoryIsClosedToOthers) {
  fs::permissions(path_, fs::perms::all);
  Reopen();
  EXPECT_EQ(ModeOf(path_), 0755u);
}

TEST_F(HotDirectoryTest, RefusesAnythingButADirectory) {
  const std::string link = temp_.File("link");
  fs::create_directory_symlink(path_, link);
  WriteFileOrDie(temp_.File("file"), "mine");
  for (const std::string& taken : {link, temp_.File("file")}) {
    const auto opened = HotDirectory::Open(taken, options_, filesystem_, clock_);
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_EQ(ReadFileOrDie(temp_.File("file")), "mine");
  const auto orphan = HotDirectory::Open(temp_.File("no/hot"), options_, filesystem_, clock_);
  EXPECT_EQ(orphan.status().code(), absl::StatusCode::kNotFound);
}

TEST_F(HotDirectoryTest, DoesNotPublishThroughALinkedShard) {
  const std::string name = MadeKey("add").Hex();
  fs::create_directory(temp_.File("elsewhere"));
  WriteFileOrDie(temp_.File("elsewhere/" + name), "precious");
  fs::create_directory_symlink(temp_.File("elsewhere"), path_ + "/" + name.substr(0, 2));
  PutOne("add");
  hot().OnRemove(MadeKey("add"));
  EXPECT_EQ(hot().Stats().failures, 1u);
  EXPECT_EQ(ReadFileOrDie(temp_.File("elsewhere/" + name)), "precious");
}

TEST_F(HotDirectoryTest, PublishingReplacesALinkAndNotItsTarget) {
  const std::string path = PathOf(MadeKey("add"));
  WriteFileOrDie(temp_.File("precious"), "data");
  fs::create_directory(fs::path(path).parent_path());
  fs::create_symlink(temp_.File("precious"), path);
  ExpectPublished(PutOne("add"));
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_EQ(ReadFileOrDie(temp_.File("precious")), "data");
}

TEST_F(HotDirectoryTest, FailedPublicationIsCountedAndLeavesNoFile) {
  BlockPathOf(MadeKey("a"));
  PutOne("a");
  EXPECT_EQ(hot().Stats().failures, 1u);
  EXPECT_EQ(hot().Stats().files, 0u);
  EXPECT_FALSE(hot().NoteUse(MadeKey("a")));
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, AFileOfTheDaemonsOwnIsReplacedByRename) {
  const std::string file = path_ + "/toolchains";
  hot().PublishFile("toolchains", "one");
  EXPECT_EQ(ModeOf(file), 0444);
  std::ifstream reader(file);
  hot().PublishFile("toolchains", "another");
  std::string content;
  reader >> content;
  EXPECT_EQ(content, "one");  // the file that was open is unchanged
  EXPECT_EQ(filesystem_.Read(file, 100).value(), "another");
  Reopen();
  EXPECT_EQ(filesystem_.Read(file, 100).value(), "another");
}

TEST_F(HotDirectoryTest, AFileThatCannotBeReplacedIsRemoved) {
  hot().PublishFile("toolchains", "old");
  filesystem_.FailWritesWith(ENOSPC);
  hot().PublishFile("toolchains", "new");
  EXPECT_FALSE(fs::exists(path_ + "/toolchains"));
  EXPECT_EQ(hot().Stats().failures, 1u);
}

TEST_F(HotDirectoryTest, NoFileWhereNothingIsPublished) {
  hot().PublishFile("toolchains", "old");
  ReopenWith(0, 4);
  hot().PublishFile("toolchains", "new");
  EXPECT_FALSE(fs::exists(path_ + "/toolchains"));
  EXPECT_EQ(hot().Stats().failures, 0u);
}

TEST_F(HotDirectoryTest, RemovedDirectoryFailsNoPut) {
  fs::remove_all(path_);
  const MadeArtifact a = PutOne("a");
  hot().Publish(MakeArtifact("b").record, MakeArtifact("b").blobs);
  hot().OnRemove(a.record.key);
  EXPECT_EQ(hot().Stats().failures, 2u);
}

TEST_F(HotDirectoryTest, AFileThatSomebodyRemovedIsNoFailure) {
  const MadeArtifact a = PutOne("a");
  fs::remove(PathOf(a.record.key));
  hot().OnRemove(a.record.key);
  EXPECT_EQ(hot().Stats().failures, 0u);
}

TEST_F(HotDirectoryTest, FailedReplacementRemovesTheOldFile) {
  const MadeArtifact a = PutOne("a");
  ArtifactRecord without_binary = a.record;
  without_binary.stages.clear();
  hot().OnPut(without_binary, {});
  EXPECT_FALSE(IsThere(a));
  EXPECT_EQ(hot().Stats().failures, 1u);
}

TEST_F(HotDirectoryTest, AHitWithoutItsBinaryIsCountedAndNotPublished) {
  const MadeArtifact made = MakeArtifact("a");
  hot().Publish(made.record, {&made.blobs[0], 1});
  EXPECT_FALSE(IsThere(made));
  EXPECT_EQ(hot().Stats().failures, 1u);
}

TEST_F(HotDirectoryTest, OnAFullFileSystemItGivesItsOwnSpaceBack) {
  const MadeArtifact a = PutOne("a");
  ASSERT_TRUE(IsThere(a));
  filesystem_.SetFreeBytes(limits::kHotFreeBytesMin - 1);
  const MadeArtifact b = PutOne("b");
  EXPECT_FALSE(IsThere(a));
  EXPECT_FALSE(IsThere(b));
  EXPECT_EQ(hot().Stats().failures, 1u);
  EXPECT_EQ(hot().Stats().evicted, 1u);
  ExpectBooksBalance();
}

TEST_F(HotDirectoryTest, FailuresAreReportedOnceAMinute) {
  for (const char* name : {"a", "b", "c", "d"}) BlockPathOf(MadeKey(name));
  testing::internal::CaptureStderr();
  PutOne("a");
  PutOne("b");
  PutOne("c");
  const std::string first = testing::internal::GetCapturedStderr();
  EXPECT_THAT(first, HasSubstr("failures=1"));
  EXPECT_THAT(first, Not(HasSubstr("failures=2")));
  clock_.Advance(std::chrono::minutes(1));
  testing::internal::CaptureStderr();
  PutOne("d");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("failures=3"));
  EXPECT_EQ(hot().Stats().failures, 4u);
}

// Threads that put, remove, hit and map the same few artifacts: whoever can map one gets it whole,
// and in the end the books balance within the bounds.
TEST_F(HotDirectoryTest, ManyThreadsOnTheSameKeys) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  ReopenWith(5 * kBytesOfOne, 4);
  std::vector<MadeArtifact> made;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) made.push_back(MakeArtifact(name));
  std::vector<std::mutex> key_locks(made.size());  // the index tells one change per key at a time
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < kRounds; ++round) {
        const size_t i = random() % made.size();
        const MadeArtifact& one = made[i];
        const auto mapped = MappedArtifact::Open(PathOf(one.record.key), one.record.key);
        EXPECT_TRUE(mapped.ok() || absl::IsNotFound(mapped.status())) << mapped.status();
        if (random() % 2 == 0) {
          hot().Publish(one.record, one.blobs);
          continue;
        }
        const std::lock_guard lock(key_locks[i]);
        if (random() % 2 == 0) {
          hot().OnPut(one.record, one.blobs);
        } else {
          hot().OnRemove(one.record.key);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(hot().Stats().failures, 0u);
  EXPECT_LE(hot().Stats().files, 4u);
  ExpectBooksBalance();
}

}  // namespace
}  // namespace kiln
