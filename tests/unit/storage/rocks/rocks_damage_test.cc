// Damage of every kind in every kind of file: what comes back is right, or it is a miss.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "storage/rocks/rocks_salvage.h"
#include "tests/unit/storage/rocks/rocks_fixture.h"

namespace kiln {
namespace {

using absl::StatusCode;
namespace fs = std::filesystem;

enum class Damage { kFlippedBits, kZeroedPage, kTruncation, kDirectory, kLinkLoop };

class RocksDamageTest : public RocksFixture {
 protected:
  static constexpr int kArtifacts = 12;

  RocksDamageTest() {
    for (int i = 0; i < kArtifacts; ++i) made_.push_back(MakeArtifact(std::to_string(i), 9000));
  }

  // Half in tables and blob files, half in the log.
  void MakeStore() {
    Reopen();
    for (int i = 0; i < kArtifacts / 2; ++i) ASSERT_TRUE(Put(made_[i]).ok());
    Reopen();
    for (int i = kArtifacts / 2; i < kArtifacts; ++i) ASSERT_TRUE(Put(made_[i]).ok());
    Close();
    fs::rename(path(), directory_.File("whole"));
  }

  std::vector<fs::path> FilesLike(std::string_view suffix) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path())) {
      const std::string name = entry.path().filename();
      if (name.ends_with(suffix) && entry.file_size() > 0) files.push_back(entry.path());
    }
    return files;
  }

  size_t ManifestBytes() {
    size_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(path())) {
      if (entry.path().filename().string().starts_with("MANIFEST-")) bytes += entry.file_size();
    }
    return bytes;
  }

  void Apply(Damage damage, const fs::path& file) {
    if (damage == Damage::kDirectory || damage == Damage::kLinkLoop) {
      fs::remove(file);
      if (damage == Damage::kDirectory) fs::create_directory(file);
      if (damage == Damage::kLinkLoop) fs::create_symlink(file.filename(), file);
      return;
    }
    const uint64_t size = fs::file_size(file);
    if (damage == Damage::kTruncation) {
      fs::resize_file(file, random_() % size);
      return;
    }
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    if (damage == Damage::kZeroedPage) {
      const uint64_t at = random_() % size;
      stream.seekp(static_cast<std::streamoff>(at));
      const std::string zeroes(std::min<uint64_t>(4096, size - at), '\0');
      stream.write(zeroes.data(), static_cast<std::streamsize>(zeroes.size()));
      return;
    }
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<std::streamoff>(random_() % size);
      stream.seekg(at);
      const int byte = stream.get();
      stream.seekp(at);
      stream.put(static_cast<char>(byte ^ (1 << (random_() % 8))));
    }
  }

  // Blob and record check themselves; what is left to see is that every failure is a miss, and one
  // that stays put aside.
  void ExpectRightOrMiss(const MadeArtifact& made) {
    const auto found = store().index().Get(context_, made.record.key);
    if (found.ok()) {
      EXPECT_EQ(*found->record, made.record);
    } else {
      EXPECT_TRUE(absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status()))
          << found.status();
      EXPECT_EQ(RecordCode(made.record.key), StatusCode::kNotFound);
    }
    for (const Blob& blob : made.blobs) {
      const auto held = store().blobs().GetBlob(context_, blob.digest());
      if (held.ok()) {
        EXPECT_EQ(held->blob.bytes(), blob.bytes());
      } else {
        EXPECT_TRUE(absl::IsNotFound(held.status()) || absl::IsDataLoss(held.status()))
            << held.status();
        EXPECT_EQ(BlobCode(blob), StatusCode::kNotFound);
      }
    }
  }

  void Rounds(std::string_view suffix, Damage damage, int rounds) {
    MakeStore();
    for (int round = 0; round < rounds; ++round) {
      Close();
      fs::remove_all(path());
      fs::copy(directory_.File("whole"), path(), fs::copy_options::recursive);
      const auto files = FilesLike(suffix);
      ASSERT_FALSE(files.empty());
      const fs::path& file = files[random_() % files.size()];
      Apply(damage, file);
      SCOPED_TRACE(fmt::format("round {} in {}", round, file.filename().string()));
      clock_.Advance(std::chrono::seconds(1));
      Reopen();
      ASSERT_NE(store_, nullptr);
      for (const MadeArtifact& made : made_) ExpectRightOrMiss(made);
      // A set-aside store is of no further interest here.
      if (!report_.set_aside.empty()) fs::remove_all(report_.set_aside);
    }
  }

  // The artifacts of which something is lost.
  std::vector<int> Lost() {
    std::vector<int> lost;
    for (int i = 0; i < kArtifacts; ++i) {
      bool is_whole = RecordCode(made_[i].record.key) == StatusCode::kOk;
      for (const Blob& blob : made_[i].blobs) {
        if (BlobCode(blob) != StatusCode::kOk) is_whole = false;
      }
      if (!is_whole) lost.push_back(i);
    }
    return lost;
  }

  // Any seed will do; this one makes a failure come again.
  std::mt19937 random_{20240101};
  std::vector<MadeArtifact> made_;
};

TEST_F(RocksDamageTest, FlippedBitsInTables) { Rounds(".sst", Damage::kFlippedBits, 15); }
TEST_F(RocksDamageTest, ZeroedPagesInTables) { Rounds(".sst", Damage::kZeroedPage, 8); }
TEST_F(RocksDamageTest, TruncatedTables) { Rounds(".sst", Damage::kTruncation, 6); }
TEST_F(RocksDamageTest, FlippedBitsInBlobFiles) { Rounds(".blob", Damage::kFlippedBits, 15); }
TEST_F(RocksDamageTest, ZeroedPagesInBlobFiles) { Rounds(".blob", Damage::kZeroedPage, 8); }
TEST_F(RocksDamageTest, TruncatedBlobFiles) { Rounds(".blob", Damage::kTruncation, 6); }
TEST_F(RocksDamageTest, DirectoriesInPlaceOfBlobFiles) { Rounds(".blob", Damage::kDirectory, 3); }
TEST_F(RocksDamageTest, LinkLoopsInPlaceOfBlobFiles) { Rounds(".blob", Damage::kLinkLoop, 3); }
TEST_F(RocksDamageTest, FlippedBitsInTheLog) { Rounds(".log", Damage::kFlippedBits, 15); }
TEST_F(RocksDamageTest, TruncatedLog) { Rounds(".log", Damage::kTruncation, 8); }

// Each opening makes tables of what the log held: four artifacts in each of three generations. At
// the fourth RocksDB would merge them.
TEST_F(RocksDamageTest, ATableThatIsLostCostsNothingButItsOwnRows) {
  constexpr int kGeneration = 4;
  Reopen();
  for (int i = 0; i < kArtifacts; ++i) {
    ASSERT_TRUE(Put(made_[i]).ok());
    if (i % kGeneration == kGeneration - 1) Reopen();
  }
  Close();
  fs::rename(path(), directory_.File("whole"));
  size_t harmless = 0;
  fs::copy(directory_.File("whole"), path());
  const auto tables = FilesLike(".sst");
  EXPECT_GT(tables.size(), 10u);
  for (const fs::path& table : tables) {
    for (const bool is_removed : {false, true}) {
      SCOPED_TRACE(table.string());
      Close();
      fs::remove_all(path());
      fs::copy(directory_.File("whole"), path(), fs::copy_options::recursive);
      clock_.Advance(std::chrono::seconds(1));
      is_removed ? fs::remove(table) : (Apply(Damage::kTruncation, table), true);
      Reopen();
      ASSERT_NE(store_, nullptr);
      EXPECT_NE(report_.set_aside, "");
      const std::vector<int> lost = Lost();
      if (lost.empty()) ++harmless;
      for (const int i : lost) EXPECT_EQ(i / kGeneration, lost.front() / kGeneration);
      EXPECT_LE(store().Stats().artifacts, kArtifacts);
      EXPECT_GE(store().Stats().artifacts, kArtifacts - kGeneration);
      // Everything can be stored again, and removed without a rest.
      for (const MadeArtifact& made : made_) ASSERT_TRUE(Put(made).ok());
      EXPECT_EQ(Lost(), std::vector<int>());
      ASSERT_TRUE(store().index().Put(context_, made_[0].record, {}).ok());
      for (const MadeArtifact& made : made_) {
        ASSERT_TRUE(store().index().Remove(context_, made.record.key).ok());
      }
      ASSERT_TRUE(rocks().CollectUnreferencedBlobs(context_).ok());
      EXPECT_EQ(store().Stats().stored_bytes, 0u);
      fs::remove_all(report_.set_aside);
    }
  }
  // Rows with reference counts, uses and totals are harmless.
  EXPECT_GT(harmless, 0u);
}

TEST_F(RocksDamageTest, DamageWithinALogCostsNothingFarFromIt) {
  constexpr int kMany = 40;
  std::vector<MadeArtifact> many;
  Reopen();
  for (int i = 0; i < kMany; ++i) {
    many.push_back(MakeArtifact(fmt::format("many {}", i), 9000));
    ASSERT_TRUE(Put(many.back()).ok());
  }
  Close();
  const auto logs = FilesLike(".log");
  ASSERT_EQ(logs.size(), 1u);
  std::fstream stream(logs[0], std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(fs::file_size(logs[0]) / 2));
  stream << "damage";
  stream.close();
  Reopen();
  EXPECT_NE(report_.damage, "");
  EXPECT_NE(report_.set_aside, "");
  size_t lost = 0;
  for (int i = 0; i < kMany; ++i) {
    if (RecordCode(many[i].record.key) != StatusCode::kOk) {
      ++lost;
      continue;
    }
    ExpectStored(many[i]);
  }
  EXPECT_GT(lost, 0u);
  EXPECT_LE(lost, 5u);
  ExpectStored(many.front());
  ExpectStored(many.back());
}

// The third large content begins a second log; RocksDB then writes the first two into a table, and
// notes the first log in its manifest. Their records stay in that log alone: both logs together are
// shorter than what makes RocksDB write the records, too.
TEST_F(RocksDamageTest, ALogOfSeveralThatIsGoneIsNoticed) {
  Reopen();
  std::vector<MadeArtifact> large;
  for (int i = 0; i < 3; ++i) large.push_back(MakeArtifact(fmt::format("large {}", i), 600'000));
  ASSERT_TRUE(Put(large[0]).ok() && Put(large[1]).ok());
  const size_t tables = FilesLike(".sst").size();
  const size_t noted = ManifestBytes();
  ASSERT_TRUE(Put(large[2]).ok());
  while (FilesLike(".sst").size() == tables || ManifestBytes() == noted) std::this_thread::yield();
  Close();
  auto logs = FilesLike(".log");
  ASSERT_EQ(logs.size(), 2u);
  fs::remove(*std::ranges::min_element(logs));
  Reopen();
  EXPECT_NE(report_.damage.find("Missing WAL"), std::string::npos) << report_.damage;
  EXPECT_NE(report_.set_aside, "");
  EXPECT_EQ(RecordCode(large[0].record.key), StatusCode::kNotFound);
  ExpectStored(large[2]);
}

TEST_F(RocksDamageTest, AKillBeforeTheSalvagedStoreIsInPlaceLosesNothingOfIt) {
  MakeStore();
  fs::create_directory(path());
  fs::rename(directory_.File("whole"), path() + ".salvaged");
  Reopen();
  EXPECT_EQ(report_.damage, "");
  EXPECT_EQ(Lost(), std::vector<int>());
}

// A compaction would fail again where the next store kept it.
TEST_F(RocksDamageTest, ABlobThatStoppedACompactionIsLeftOut) {
  MakeStore();
  fs::copy(directory_.File("whole"), path(), fs::copy_options::recursive);
  Apply(Damage::kZeroedPage, FilesLike(".blob").front());
  WriteFileOrDie(fmt::format("{}/{}", path(), kDamagedMarker), "a bad blob\n");
  Reopen();
  EXPECT_NE(report_.set_aside, "");
  const auto lost = Lost();
  EXPECT_FALSE(lost.empty());
  EXPECT_LT(lost.size(), 3u);
  Close();
  auto database = RocksDatabase::Open(path(), kExpectedBytes);
  ASSERT_TRUE(database.ok());
  std::atomic<bool> cancelled = false;
  const absl::Status collected = (*database)->CollectGarbage(1.0, cancelled);
  EXPECT_TRUE(collected.ok()) << collected;
}

TEST_F(RocksDamageTest, ASalvageWithoutTimeToReadKeepsEveryBlobCounted) {
  MakeStore();
  fs::copy(directory_.File("whole"), path(), fs::copy_options::recursive);
  Apply(Damage::kZeroedPage, FilesLike(".blob").front());
  WriteFileOrDie(fmt::format("{}/{}", path(), kDamagedMarker), "a bad blob\n");
  const std::string read = fmt::format("{}.read", path());
  const std::string salvaged = fmt::format("{}.salvaged", path());
  ASSERT_TRUE(SalvageRocksStore(path(), read, kExpectedBytes, nullptr, std::chrono::hours(1)).ok());
  ASSERT_TRUE(SalvageRocksStore(path(), salvaged, kExpectedBytes, nullptr, {}).ok());
  const auto bytes = [](const std::string& store) {
    auto database = RocksDatabase::Open(store, kExpectedBytes);
    EXPECT_TRUE(database.ok());
    const auto totals = RocksStore::ReadTotals(**database);
    EXPECT_TRUE(totals.ok());
    return totals->stored_bytes;
  };
  EXPECT_GT(bytes(salvaged), bytes(read));
}

// After damage to values alone, storing again heals everything without a restart.
TEST_F(RocksDamageTest, LostValuesAreStoredAgain) {
  MakeStore();
  fs::copy(directory_.File("whole"), path(), fs::copy_options::recursive);
  for (const fs::path& file : FilesLike(".blob")) Apply(Damage::kFlippedBits, file);
  Reopen();
  for (const MadeArtifact& made : made_) ExpectRightOrMiss(made);
  for (const MadeArtifact& made : made_) ASSERT_TRUE(Put(made).ok());
  for (const MadeArtifact& made : made_) ExpectStored(made);
}

}  // namespace
}  // namespace kiln
