#include "daemon/kernel/nearest_artifact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/kernel/artifact_document.h"
#include "daemon/kernel/request_document.h"
#include "storage/base/limits.h"
#include "storage/forwarding_store.h"
#include "storage/memory_store.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using JobChange = std::function<void(CompileJob&)>;

// The fake compiler's artifacts are all of a kernel called "kernel".
constexpr char kSource[] = "tt.func public @kernel(%x: i32) {}";

class NearestArtifactTest : public ::testing::Test {
 protected:
  // A job and its request, which is written once: a large one takes a second.
  static std::pair<CompileJob, std::string> Written(const JobChange& change) {
    CompileJob job = *MakeJob(kSource);
    change(job);
    std::string request = WriteRequest(job);
    job.key = Digest::Of(request);
    return {std::move(job), std::move(request)};
  }
  static CompileJob Job(const JobChange& change = [](CompileJob&) {}) {
    return Written(change).first;
  }
  Digest Store(const JobChange& change, int64_t created_unix_ms = 1, bool keeps_request = true) {
    auto [job, written] = Written(change);
    auto artifact = *MakeArtifactOf(job);
    artifact.provenance.toolchain = "fake==1.0";
    ArtifactRecord record = MakeRecord(artifact);
    record.created_unix_ms = created_unix_ms;
    record.options = ListOptions(job.request);
    if (created_unix_ms == 0) record.name.clear();  // as an earlier version put it
    std::vector<Blob> blobs;
    for (const StageBlob& stage : artifact.stages) blobs.push_back(stage.blob);
    if (keeps_request) {
      const Blob request = Blob::FromBytes(std::move(written));
      record.stages.insert(record.stages.begin(),
                           {std::string(kRequestStage), request.digest(), request.size_bytes()});
      blobs.push_back(request);
    }
    EXPECT_TRUE(store_.index().Put({}, record, blobs).ok());
    return job.key;
  }
  NearestSearch Find(const CompileJob& asked) {
    auto found = FindNearest({}, clock_, store_.index(), store_.blobs(), asked);
    EXPECT_TRUE(found.ok()) << found.status();
    return *std::move(found);
  }

  FakeClock clock_;
  MemoryStore store_{limits::kGiB, clock_};
};

TEST_F(NearestArtifactTest, EmptyStoreHasNoNearestArtifact) {
  const NearestSearch search = Find(Job());
  EXPECT_FALSE(search.nearest);
  EXPECT_TRUE(search.has_seen_all);
  EXPECT_EQ(search.records, 0u);
}

TEST_F(NearestArtifactTest, TheFewestDifferencesWin) {
  Store([](CompileJob& job) {
    job.request.launch.num_warps = 8;
    job.request.launch.num_stages = 2;
  });
  const Digest near = Store([](CompileJob& job) { job.request.launch.num_warps = 8; });
  const NearestSearch search = Find(Job());
  ASSERT_TRUE(search.nearest);
  EXPECT_EQ(search.nearest->key, near);
  EXPECT_EQ(search.nearest->toolchain, "fake==1.0");
  EXPECT_EQ(search.nearest->target.ToString(), "cuda:90");
  EXPECT_THAT(search.nearest->differences,
              ElementsAre(RequestDifference{"num_warps", "default", "8"}));
  EXPECT_EQ(search.records, 2u);
}

TEST_F(NearestArtifactTest, TheYoungestOfThoseThatDifferAsMuch) {
  Store([](CompileJob& job) { job.request.launch.num_warps = 2; }, 5);
  const Digest youngest = Store([](CompileJob& job) { job.request.launch.num_warps = 8; }, 7);
  Store([](CompileJob& job) { job.request.launch.num_warps = 16; }, 6);
  EXPECT_EQ(Find(Job()).nearest->key, youngest);
}

TEST_F(NearestArtifactTest, OfThoseThatDifferAsMuchTheOneWithTheSameTiles) {
  const auto with = [](const std::string& text) {
    return [text](CompileJob& job) { job.request.source.text += text; };
  };
  const Digest alike = Store(with("tensor<1024xf32> loc(1)"), 5);
  Store(with("tensor<512xf32> loc(2)"), 7);
  EXPECT_EQ(Find(Job(with("tensor<1024xf32> loc(2)"))).nearest->key, alike);
}

TEST_F(NearestArtifactTest, AnotherOptionIsNearerThanAnotherSource) {
  const Digest option = Store([](CompileJob& job) { job.request.launch.num_warps = 8; }, 5);
  Store([](CompileJob& job) { job.request.source.text += "// another"; }, 7);
  EXPECT_EQ(Find(Job()).nearest->key, option);
}

TEST_F(NearestArtifactTest, EveryThingThatIsInTheKeyIsCompared) {
  Store([](CompileJob& job) {
    job.request.source.text += " ";
    job.request.source.name = "decides nothing";
    job.request.target.architecture = "80";
    job.request.ptxas = std::string(64, 'a');
    job.request.options["fast"] = {true};
    job.request.headers = {{"tile.h", "int tile;"}};
    job.request.specialization.parameters = {{"x", "i32", {}, std::nullopt}};
  });
  const CompileJob asked = Job([](CompileJob& job) {
    auto other = std::make_shared<Toolchain>(*job.toolchain);
    other->fingerprint = Digest::Of("another build");
    job.toolchain = std::move(other);
    job.request.options["fast"] = {false};
  });
  const NearestSearch search = Find(asked);
  ASSERT_TRUE(search.nearest);
  std::vector<std::string> fields;
  for (const auto& one : search.nearest->differences) {
    fields.push_back(one.field + ": " + one.asked.substr(0, 14) + " / " + one.stored.substr(0, 14));
  }
  EXPECT_THAT(
      fields,
      ElementsAre("fast: false / true", testing::StartsWith("header tile.h: none / "),
                  "parameters: none / [{\"name\":\"x\",\"", "ptxas: the toolchain' / aaaaaaaaaaaa",
                  testing::StartsWith("source: "), "target: cuda:90:32 / cuda:80:32",
                  testing::StartsWith("toolchain: fake==1.0 (")));
}

TEST_F(NearestArtifactTest, NoTextOfTheSourceIsTold) {
  Store([](CompileJob& job) {
    job.request.source.text += " // secret";
    job.request.options["long"] = {std::string(5000, 's') + "secret"};
  });
  const auto found = Find(Job());
  ASSERT_TRUE(found.nearest.has_value());
  for (const RequestDifference& one : found.nearest->differences) {
    EXPECT_EQ((one.asked + one.stored).find("secret"), std::string::npos) << one.stored;
    EXPECT_LT(one.stored.size(), 2 * limits::kNearestValueBytesMax);
  }
}

TEST_F(NearestArtifactTest, DifferenceInPathsAloneNamesTheSetting) {
  const auto in = [](const std::string& folder, const std::string& rest = "") {
    return [=](CompileJob& job) {
      job.request.source.text += "\n#loc = loc(\"" + folder + "/a.py\":1:2)\ntt.print \"/" + rest;
    };
  };
  const Digest elsewhere = Store(in("/of \\22another", "x\" : %a"));
  Store(in("/home/me", "y\" : %a"), 2);
  auto found = Find(Job(in("/home/me", "x\" : %a"))).nearest;
  ASSERT_TRUE(found);
  EXPECT_THAT(found->differences, ElementsAre(testing::Field(&RequestDifference::field, "source")));
  found = Find(Job(in("/home/you", "x\" : %a"))).nearest;
  EXPECT_EQ(found->key, elsewhere);
  ASSERT_EQ(found->differences.size(), 1u);
  EXPECT_EQ(found->differences[0].field, "source paths");
  EXPECT_THAT(found->differences[0].stored, testing::HasSubstr("KILN_BASEDIRS"));
  EXPECT_THAT(found->differences[0].stored, testing::Not(testing::HasSubstr("another")));
  found = Find(Job(in("/home/you", "z\" : %a"))).nearest;
  EXPECT_EQ(found->differences.size(), 2u);
  EXPECT_THAT(found->differences[1].stored, testing::Not(testing::HasSubstr("KILN_BASEDIRS")));
  EXPECT_EQ(Find(Job(in("/cut off", ""))).nearest->differences.size(), 2u);
}

TEST_F(NearestArtifactTest, OtherKernelsAreFarAway) {
  Store([](CompileJob& job) { job.request.launch.num_warps = 8; });
  const auto named = [](const std::string& text, SourceKind kind, const std::string& name = "") {
    return Job([&](CompileJob& job) { job.request.source = {kind, text, name}; });
  };
  EXPECT_FALSE(Find(named("tt.func public @kernel_2() {}", SourceKind::kTtir)).nearest);
  EXPECT_FALSE(Find(named("", SourceKind::kTtir)).nearest);
  EXPECT_TRUE(Find(named("no entry point", SourceKind::kTtir, "kernel")).nearest);
  EXPECT_TRUE(Find(named(".visible .entry kernel(", SourceKind::kPtx)).nearest);
  EXPECT_TRUE(Find(named("__global__ void kernel(int)", SourceKind::kCudaCxx)).nearest);
  EXPECT_TRUE(Find(named("extern \"C\" __global__ void __launch_bounds__(64) kernel(int)",
                         SourceKind::kCudaCxx))
                  .nearest);
  EXPECT_TRUE(Find(named("__global__ void kern(int)", SourceKind::kCudaCxx)).nearest) << "mangled";
  EXPECT_FALSE(Find(named("__global__ void other(int)", SourceKind::kCudaCxx)).nearest);
}

TEST_F(NearestArtifactTest, ArtifactWithoutARequestIsNotCompared) {
  Store([](CompileJob&) {}, 1, /*keeps_request=*/false);
  const NearestSearch search = Find(Job());
  EXPECT_FALSE(search.nearest);
  EXPECT_EQ(search.records, 1u);
}

TEST_F(NearestArtifactTest, ALimitOfWhatIsReadIsSaid) {
  for (int i = 0; i < 2; ++i) {
    Store([i](CompileJob& job) {
      job.request.launch.num_warps = 1 << i;
      job.request.source.text += std::string(limits::kNearestRequestBytesMax / 2, ' ');
    });
  }
  const NearestSearch search = Find(Job());
  EXPECT_TRUE(search.nearest);
  EXPECT_FALSE(search.has_seen_all);
}

TEST_F(NearestArtifactTest, OfManyThoseWhoseOptionsAreMostAlikeAreCompared) {
  const auto differing = [](int warps, int stages, int number) {
    return [=](CompileJob& job) {
      job.request.launch.num_warps = warps;
      job.request.launch.num_stages = stages;
      job.request.source.text += fmt::format("// {}", number);
    };
  };
  const Digest near = Store(differing(8, 3, -1), 1);
  for (size_t i = 0; i < limits::kNearestComparedMax; ++i) {
    Store(differing(2, 4, static_cast<int>(i)), 2);
  }
  const NearestSearch search = Find(Job(differing(8, 2, -1)));
  EXPECT_EQ(search.nearest->key, near);
  EXPECT_EQ(search.records, limits::kNearestComparedMax + 1);
  EXPECT_FALSE(search.has_seen_all);
}

TEST_F(NearestArtifactTest, WhatAnEarlierVersionStoredIsFoundByItsRecord) {
  const Digest earlier = Store([](CompileJob& job) { job.request.launch.num_warps = 8; }, 0);
  const NearestSearch search = Find(Job());
  ASSERT_TRUE(search.nearest);
  EXPECT_EQ(search.nearest->key, earlier);
  EXPECT_FALSE(Find(Job([](CompileJob& job) {
                 job.request.source.text = "tt.func public @other() {}";
               })).nearest);
}

// Has rows of an earlier version, whose records are gone.
class EarlierStore final : public ForwardingStore {
 public:
  EarlierStore(std::unique_ptr<Store> inner, size_t rows)
      : ForwardingStore(std::move(inner)), rows_(rows) {}
  absl::StatusOr<std::vector<FoundUsage>> ScanUsages(const CallContext&,
                                                     const std::optional<Digest>&,
                                                     size_t limit) override {
    std::vector<FoundUsage> page;
    for (; rows_ > 0 && page.size() < limit; --rows_) {
      page.push_back({Digest::Of(std::to_string(rows_)), {}});
    }
    return page;
  }

 private:
  size_t rows_;
};

TEST_F(NearestArtifactTest, PastTheRecordsThatItReadsItHasNotSeenAll) {
  for (const size_t more : {0, 1}) {
    EarlierStore store(std::make_unique<MemoryStore>(limits::kMiB, clock_),
                       limits::kNearestRecordsMax + more);
    const auto found = FindNearest({}, clock_, store.index(), store.blobs(), Job());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->has_seen_all, more == 0);
  }
}

TEST_F(NearestArtifactTest, CancellationEndsTheSearch) {
  Store([](CompileJob& job) { job.request.launch.num_warps = 8; });
  CallContext context;
  context.cancellation.Cancel();
  const auto found = FindNearest(context, clock_, store_.index(), store_.blobs(), Job());
  EXPECT_TRUE(absl::IsCancelled(found.status()));
}

}  // namespace
}  // namespace kiln
