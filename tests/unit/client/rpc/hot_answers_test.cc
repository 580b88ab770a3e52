// A client that finds in the hot directory what its daemon would answer.
#include "client/rpc/hot_answers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>

#include "client/rpc/unreported_uses.h"
#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_resolver.h"
#include "daemon/messages/translate.h"
#include "storage/base/limits.h"
#include "storage/hot/artifact_layout.h"
#include "storage/hot/hot_directory.h"
#include "tests/testing/fake_catalog.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln {
namespace {

class HotAnswersTest : public ::testing::Test {
 protected:
  HotAnswersTest() {
    request_.mutable_source()->set_kind(v1::SOURCE_KIND_TTIR);
    request_.mutable_source()->set_text("module {}");
    request_.mutable_target()->set_backend("cuda");
    request_.mutable_target()->set_architecture("90");
    options_.verified_bytes_max = limits::kMiB;
    hot_ = *HotDirectory::Open(daemon_.root() + "/run/hot", {}, OsFilesystem(), clock_);
    daemon_.kernels().on_note_uses = [this](const v1::NoteUsesRequest& uses) {
      for (const std::string& key : uses.keys()) told_.push_back(key);
    };
    PublishToolchains();
  }

  void PublishToolchains() {
    v1::ListToolchainsResponse listed;
    ToProto(FakeCatalog({triton_}), listed);
    hot_->PublishFile(kPublishedToolchains, listed.SerializeAsString());
  }
  // The artifact of the request, as the daemon resolves it.
  std::shared_ptr<const Artifact> Publish(const std::function<void(ArtifactRecord&)>& change =
                                              [](ArtifactRecord&) {}) {
    const FakeCatalog catalog({triton_});
    const auto job = RequestResolver(catalog).Resolve(*FromProto(v1::CompileRequest(request_)));
    EXPECT_TRUE(job.ok()) << job.status();
    auto artifact = MakeArtifactOf(**job);
    std::vector<Blob> blobs;
    for (const StageBlob& stage : artifact->stages) blobs.push_back(stage.blob);
    ArtifactRecord record = MakeRecord(*artifact);
    change(record);
    hot_->OnPut(record, blobs);
    return artifact;
  }
  std::string FileOf(const Artifact& artifact) const {
    const std::string key = artifact.key.Hex();
    return hot_->path() + "/" + key.substr(0, 2) + "/" + key;
  }
  std::unique_ptr<Client> Connect() {
    auto client = Client::Connect(options_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  // Whether the client answered without a call.
  bool IsHit(Client& client) {
    const int calls = daemon_.kernels().compiles;
    const auto answer = client.Compile(request_);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return daemon_.kernels().compiles == calls;
  }
  bool IsHit() { return IsHit(*Connect()); }

  FakeDaemon daemon_;
  ConnectOptions options_ = daemon_.Options();
  FakeClock clock_;
  std::shared_ptr<Toolchain> triton_ = MakeTriton();
  std::unique_ptr<HotDirectory> hot_;
  std::vector<std::string> told_;
  v1::CompileRequest request_;
};

TEST_F(HotAnswersTest, AHitIsTheDaemonsAnswerWithoutACall) {
  const auto artifact = Publish();
  const auto client = Connect();
  const int calls = daemon_.kernels().lookups;
  const auto answer = client->Compile(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::CompileResponse daemons;
  ASSERT_TRUE(ToProto(*artifact, Outcome::kHit, Tier::kMemory, {}, daemons).ok());
  EXPECT_EQ(answer->SerializeAsString(), daemons.SerializeAsString());
  EXPECT_EQ(daemon_.kernels().compiles, 0);
  EXPECT_EQ(daemon_.kernels().lookups, calls);

  daemon_.Stop();
  EXPECT_TRUE(client->Compile(request_).ok());
}

TEST_F(HotAnswersTest, EarlierStagesAreThoseOfTheBinary) {
  const auto artifact = Publish();
  for (const char* stage : {"cubin", "ptx", "cubin"}) request_.add_stages(stage);
  const auto client = Connect();
  const auto answer = client->Compile(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::CompileResponse daemons;
  const std::vector<std::string> each_once = {"cubin", "ptx"};
  ASSERT_TRUE(ToProto(*artifact, Outcome::kHit, Tier::kMemory, each_once, daemons).ok());
  EXPECT_EQ(answer->SerializeAsString(), daemons.SerializeAsString());
  EXPECT_EQ(daemon_.kernels().compiles, 0);

  // The files of a key are replaced one after the other.
  const std::string file = FileOf(*artifact) + ".stages";
  const std::vector<NamedBlob> others = {{"ptx", Blob::FromBytes("another")}};
  const std::string binary(Digest::Of("another binary").Bytes());
  std::filesystem::remove(file);
  WriteFileOrDie(file, *EncodeArtifactFile(artifact->key, binary, "", others));
  EXPECT_FALSE(IsHit(*client));
  std::filesystem::remove(file);
  EXPECT_FALSE(IsHit(*client));
}

TEST_F(HotAnswersTest, ADescriptionStandsForTheDocument) {
  v1::CompileResponse described;
  DescribeTo(*Publish(), described);
  const std::string fields = described.SerializeAsString();
  const auto artifact = Publish([&](ArtifactRecord& record) {
    record.description = kDescriptionVersion + fields;
    record.document = "is not read";
  });
  const auto answer = Connect()->Compile(request_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::CompileResponse daemons;
  ASSERT_TRUE(ToProto(*artifact, Outcome::kHit, Tier::kMemory, {}, daemons).ok());
  EXPECT_EQ(answer->SerializeAsString(), daemons.SerializeAsString());

  Publish([&](ArtifactRecord& record) {
    record.description = static_cast<char>(kDescriptionVersion + 1) + fields;
  });
  EXPECT_TRUE(IsHit());
  Publish([&](ArtifactRecord& record) { record.description = kDescriptionVersion + fields + "x"; });
  EXPECT_FALSE(IsHit());
}

TEST_F(HotAnswersTest, RequestsThatAFileCannotAnswerGoToTheDaemon) {
  Publish();
  const v1::CompileRequest plain = request_;
  EXPECT_TRUE(IsHit());
  request_.add_stages("cubin");
  EXPECT_TRUE(IsHit());
  request_.set_cache_policy(v1::CACHE_POLICY_ONLY_IF_CACHED);
  EXPECT_TRUE(IsHit());
  request_.set_cache_policy(v1::CACHE_POLICY_REFRESH);
  EXPECT_FALSE(IsHit());
  request_ = plain;
  request_.add_stages("ptx");
  EXPECT_TRUE(IsHit());
  request_.add_stages("sass");
  EXPECT_FALSE(IsHit());
  request_ = plain;
  request_.set_priority(static_cast<v1::Priority>(99));
  EXPECT_FALSE(IsHit());
  request_ = plain;
  request_.set_job(std::string(limits::kNameBytesMax + 1, 'j'));
  EXPECT_FALSE(IsHit());
  request_ = plain;
  (*request_.mutable_options())["num_warps"].set_string_value("four");
  EXPECT_FALSE(IsHit());
  request_ = plain;
  request_.set_toolchain("triton==9.9.9");
  EXPECT_FALSE(IsHit());
}

TEST_F(HotAnswersTest, ADamagedFileIsNoAnswer) {
  const std::string file = FileOf(*Publish());
  std::string bytes = ReadFileOrDie(file);
  bytes.back() ^= 1;
  ::unlink(file.c_str());
  WriteFileOrDie(file, bytes);
  EXPECT_FALSE(IsHit());
}

// The checksum of the file is right, the digest of the binary is not.
TEST_F(HotAnswersTest, ABinaryOfAnotherDigestIsNoAnswer) {
  const std::string file = FileOf(*Publish());
  std::string bytes = ReadFileOrDie(file);
  bytes.back() ^= 1;
  const uint64_t checksum = ArtifactChecksum(bytes);
  bytes.replace(offsetof(ArtifactHeader, checksum), sizeof checksum,
                reinterpret_cast<const char*>(&checksum), sizeof checksum);
  ::unlink(file.c_str());
  WriteFileOrDie(file, bytes);
  EXPECT_FALSE(IsHit());
}

TEST_F(HotAnswersTest, AnOlderDaemonPublishesNoToolchains) {
  Publish();
  ::unlink((hot_->path() + "/toolchains").c_str());
  EXPECT_FALSE(IsHit());
}

TEST_F(HotAnswersTest, ToolchainsThatAreDamagedOrAnybodysAreNotRead) {
  Publish();
  const std::string file = hot_->path() + "/toolchains";
  const std::string bytes = ReadFileOrDie(file);
  hot_->PublishFile("toolchains", "damaged");
  EXPECT_FALSE(IsHit());
  hot_->PublishFile("toolchains", bytes);
  EXPECT_TRUE(IsHit());
  ::chmod(file.c_str(), 0666);
  EXPECT_FALSE(IsHit());
  ::chmod(file.c_str(), 0444);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(file.c_str(), 4711, 0), 0);
    EXPECT_FALSE(IsHit());
  }
}

TEST_F(HotAnswersTest, AnOpenClientSeesChangedToolchains) {
  Publish();
  const auto client = Connect();
  EXPECT_TRUE(IsHit(*client));
  // Another default: what the request says by leaving the option out is another compile.
  (*request_.mutable_options())["num_warps"].set_int_value(8);
  EXPECT_FALSE(IsHit(*client));
  triton_->backends.front().options["num_warps"].default_value = OptionValue{int64_t{8}};
  PublishToolchains();
  EXPECT_TRUE(IsHit(*client));
  // Removed.
  v1::ListToolchainsResponse none;
  hot_->PublishFile(kPublishedToolchains, none.SerializeAsString());
  EXPECT_FALSE(IsHit(*client));
}

TEST_F(HotAnswersTest, AnOpenClientFindsToolchainsThatComeLater) {
  Publish();
  std::filesystem::remove(hot_->path() + "/" + kPublishedToolchains);
  const auto client = Connect();
  EXPECT_FALSE(IsHit(*client));
  PublishToolchains();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool is_hit = false;
  while (!is_hit && std::chrono::steady_clock::now() < deadline) is_hit = IsHit(*client);
  EXPECT_TRUE(is_hit);
}

TEST_F(HotAnswersTest, ManyAsksForTheMissesAlone) {
  Publish();
  const v1::CompileRequest hit = request_;
  const v1::CompileRequest sent[] = {hit, RequestFor("miss"), hit};
  const auto run = [&](size_t begin, size_t end) {
    std::map<uint64_t, v1::Outcome> outcomes;
    size_t next = begin;
    EXPECT_TRUE(Connect()
                    ->CompileMany(
                        [&](v1::CompileRequest& request) {
                          if (next == end) return false;
                          request = sent[next++];
                          return true;
                        },
                        [&](uint64_t index, const absl::StatusOr<v1::CompileResponse>& answer) {
                          ASSERT_TRUE(answer.ok()) << answer.status();
                          outcomes[index] = answer->outcome();
                        })
                    .ok());
    return outcomes;
  };
  const std::map<uint64_t, v1::Outcome> expected = {
      {0, v1::OUTCOME_HIT}, {1, v1::OUTCOME_COMPILED}, {2, v1::OUTCOME_HIT}};
  EXPECT_EQ(run(0, 3), expected);
  EXPECT_EQ(daemon_.kernels().streams, 1);
  EXPECT_EQ(run(2, 3).size(), 1u);
  EXPECT_EQ(daemon_.kernels().streams, 1);
}

TEST_F(HotAnswersTest, ManyGivesAHitWhileTheSourceBlocks) {
  Publish();
  std::promise<void> answered;
  int asked = 0;
  const absl::Status status = Connect()->CompileMany(
      [&](v1::CompileRequest& request) {
        request = request_;
        if (asked == 1) {
          EXPECT_EQ(answered.get_future().wait_for(std::chrono::seconds(20)),
                    std::future_status::ready);
        }
        return asked++ == 0;
      },
      [&](uint64_t, const absl::StatusOr<v1::CompileResponse>& answer) {
        EXPECT_TRUE(answer.ok()) << answer.status();
        answered.set_value();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(daemon_.kernels().streams, 0);
}

TEST_F(HotAnswersTest, ABatchOfHitsEndsAtItsDeadline) {
  Publish();
  ManyOptions options;
  options.call.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  const auto run = [&](bool begins_with_a_miss) {
    uint64_t taken = 0;
    uint64_t answered = 0;
    const absl::Status status = Connect()->CompileMany(
        [&](v1::CompileRequest& request) {
          const bool is_miss = begins_with_a_miss && taken == 0;
          request = is_miss ? RequestFor("miss") : request_;
          ++taken;
          return true;
        },
        [&](uint64_t, const auto&) { ++answered; }, options);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_EQ(answered, taken);
  };
  run(false);
  options.call.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  run(true);
}

TEST_F(HotAnswersTest, TheDaemonIsToldOfUsesAtTheEnd) {
  const auto artifact = Publish();
  auto client = Connect();
  EXPECT_TRUE(IsHit(*client));
  EXPECT_TRUE(IsHit(*client));
  EXPECT_TRUE(told_.empty());
  client.reset();
  EXPECT_EQ(told_, std::vector<std::string>{std::string(artifact->key.Bytes())});
}

TEST_F(HotAnswersTest, AClientThatShallNotReadAsks) {
  Publish();
  options_.reads_hot_directory = false;
  EXPECT_FALSE(IsHit());
}

TEST(UnreportedUses, UsesAreDueByNumberOrByTime) {
  UnreportedUses uses;
  const UnreportedUses::Moment start{};
  const auto add = [&](std::string_view key, UnreportedUses::Moment now) {
    return uses.Add(Digest::Of(key), "train", 100, 7, false, now).keys_size();
  };
  EXPECT_EQ(add("a", start), 0);
  EXPECT_EQ(add("a", start), 0);
  EXPECT_EQ(add("b", start + limits::kUnreportedUsesTime), 2);
  for (size_t i = 1; i < limits::kUnreportedUsesMax; ++i) {
    EXPECT_EQ(add(std::to_string(i), start), 0);
  }
  EXPECT_EQ(add("last", start), static_cast<int>(limits::kUnreportedUsesMax));
  EXPECT_EQ(uses.TakeAll().keys_size(), 0);
}

TEST(UnreportedUses, AddUpEachJobsHits) {
  UnreportedUses uses;
  for (const char* job : {"train", "train", "serve"}) {
    (void)uses.Add(Digest::Of("a"), job, 100, 7, false, UnreportedUses::Moment());
  }
  const v1::NoteUsesRequest told = uses.TakeAll();
  EXPECT_EQ(told.keys_size(), 1);
  ASSERT_EQ(told.hits_size(), 2);
  EXPECT_EQ(told.hits(1).job(), "train");
  EXPECT_EQ(told.hits(1).count(), 2u);
  EXPECT_EQ(told.hits(1).saved_micros(), 200u);
  EXPECT_EQ(told.hits(1).place(), v1::ToldHits::HOT);
}

}  // namespace
}  // namespace kiln
