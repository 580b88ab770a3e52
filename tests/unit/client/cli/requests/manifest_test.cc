#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli/requests/manifest_frame.h"
#include "client/cli/requests/manifest_reader.h"
#include "client/cli/requests/manifest_writer.h"
#include "client/cli/requests/own_entries.h"
#include "client/cli/requests/request_file.h"
#include "client/cli/requests/request_json.h"
#include "storage/bundle/zstd_frame.h"
#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As docs/manifest.md has it.
constexpr char kLine[] =
    R"({"name":"k","kind":"ttir","target":"cuda:90","options":{"num_warps":8},"source":"module {}\n"})";
constexpr char kRequestDigest[] =
    "c062bd443bf26c59b96527bb73c516c08500089e5e4abdc4a38553334121e9f2";
constexpr char kManifestDigest[] =
    "4f375c6c98a1cdf407f206a5e5ac9288c51c39454ceb1bfe1e30cdfc44d0ce88";

NamedRequest Read(const std::string& line) {
  RequestFile file(std::make_shared<std::istringstream>(line), ".");
  return *file.Next();
}

NamedRequest Numbered(int number) {
  NamedRequest named = Read(kLine);
  named.name = "k" + std::to_string(number);
  (*named.request->mutable_options())["num_stages"].set_int_value(number);
  return named;
}

class ManifestTest : public testing::Test {
 protected:
  void Write(const std::vector<NamedRequest>& requests) {
    auto writer = ManifestWriter::Create(path_);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const NamedRequest& each : requests) {
      const absl::Status added = (*writer)->Add(each);
      ASSERT_TRUE(added.ok()) << added;
    }
    v1::ManifestOrigin origin;
    origin.set_job("example");
    const absl::Status finished = (*writer)->Finish(origin);
    ASSERT_TRUE(finished.ok()) << finished;
  }
  std::string Bytes() const { return *ReadSource(path_); }

  const TempDirectory directory_;
  const std::string path_ = directory_.File("job.kiln");
};

TEST_F(ManifestTest, IdentitiesAreThoseOfTheDocumentedVector) {
  const NamedRequest named = Read(kLine);
  ASSERT_TRUE(named.request.ok()) << named.request.status();
  EXPECT_EQ(RequestDigest(*named.request).Hex(), kRequestDigest);
  EXPECT_EQ(ManifestDigest({RequestDigest(*named.request)}).Hex(), kManifestDigest);
}

TEST_F(ManifestTest, WhatSaysHowToAnswerIsNotInTheIdentity) {
  const NamedRequest named = Read(
      R"({"kind":"ttir","target":"cuda:90","options":{"num_warps":8},"source":"module {}\n","job":"j","stages":["ptx"],"priority":"warm","recorded":{"count":3}})");
  EXPECT_EQ(RequestDigest(*named.request).Hex(), kRequestDigest);
  EXPECT_EQ(named.recorded.count, 3);
}

TEST_F(ManifestTest, ALineOfEveryKindOfFieldIsReadAgain) {
  const NamedRequest named = Read(
      R"({"name":"k","kind":"cuda","target":"hip:gfx942:64","toolchain":"nvrtc==12.9.86","ptxas":"ptxas==13.0.88","launch":{"num_warps":4,"cluster_dims":[1,2,1],"launch_pdl":false},"options":{"a":true,"b":1.5,"c":"x","d":[1,[2.0,"y"]]},"specialization":{"parameters":[{"name":"x","type":"*fp16","attributes":{"tt.divisibility":16}},{"type":"i32","constant":1}]},"headers":{"a.h":"text"},"source":"s"})");
  ASSERT_TRUE(named.request.ok()) << named.request.status();
  const NamedRequest again = Read(RequestLine(named));
  ASSERT_TRUE(again.request.ok()) << again.request.status();
  EXPECT_EQ(RequestDigest(*again.request), RequestDigest(*named.request));
  EXPECT_EQ(RequestLine(again), RequestLine(named));
  EXPECT_EQ(again.request->target().warp_size(), 64);
  EXPECT_TRUE(again.request->launch().has_launch_pdl());
}

TEST_F(ManifestTest, ManyPagesComeBackInTheirOrderWithTheirFacts) {
  std::vector<NamedRequest> requests;
  for (int i = 0; i < 600; ++i) requests.push_back(Numbered(i));
  requests[7].recorded.same_ir_targets = {"cuda:80", "cuda:90"};
  requests[7].recorded.compile_micros = 5;
  requests.push_back(requests[7]);
  requests.back().recorded.compile_micros = 9;
  Write(requests);

  auto reader = ManifestReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->index().pages_size(), 3);
  EXPECT_EQ(reader->index().sources(), 1);
  EXPECT_EQ(reader->index().origin().job(), "example");
  for (int i = 0; i < 600; ++i) {
    const auto named = reader->Next();
    ASSERT_TRUE(named.has_value() && named->request.ok());
    EXPECT_EQ(named->name, requests[static_cast<size_t>(i)].name);
    EXPECT_EQ(named->recorded.count, i == 7 ? 2 : 1);
    if (i != 7) continue;
    EXPECT_EQ(named->recorded.compile_micros, 9);
    EXPECT_THAT(named->recorded.same_ir_targets, ElementsAre("cuda:80", "cuda:90"));
  }
  EXPECT_FALSE(reader->Next().has_value());
}

// A file that an earlier version wrote. Another number of a field or another frame makes another
// file. With KILN_WRITE_VECTORS this test writes it.
TEST_F(ManifestTest, TheSampleIsReadAndWrittenByteForByte) {
  const std::string sample = KILN_SOURCE_DIR "/tests/vectors/manifest.kiln";
  constexpr unsigned kZstdOfTheSample = 10504;  // another may compress otherwise
  NamedRequest first = Read(
      R"({"name":"k","kind":"cuda","target":"hip:gfx942:64","toolchain":"nvrtc==12.9.86","ptxas":"ptxas==13.0.88","launch":{"num_warps":4},"options":{"b":1.5},"specialization":{"parameters":[{"name":"x","type":"*fp16","attributes":{"tt.divisibility":16}}]},"headers":{"a.h":"text"},"source":"one"})");
  first.recorded.compile_micros = 5;
  first.recorded.same_ir_targets = {"cuda:80", "cuda:90"};
  const NamedRequest second = Read(kLine);
  v1::OwnEntry entry;
  entry.set_key("triton tuning k");
  entry.add_files()->set_name("times");
  entry.mutable_files(0)->set_content("1.5");
  v1::ManifestOrigin origin;
  origin.set_job("example");
  origin.add_command("python");
  origin.set_host("node-1");
  origin.set_created_unix_ms(1'704'067'200'000);
  (*origin.mutable_versions())["triton"] = "3.6.0";
  origin.add_devices("NVIDIA H100 80GB HBM3");

  const auto writer = *ManifestWriter::Create(path_);
  ASSERT_TRUE(writer->Add(first).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(writer->Add(second).ok());
  ASSERT_TRUE(writer->AddOwn(entry).ok());
  ASSERT_TRUE(writer->Finish(origin).ok());
  if (std::getenv("KILN_WRITE_VECTORS") != nullptr) WriteFileOrDie(sample, Bytes());
  if (ZSTD_versionNumber() == kZstdOfTheSample) {
    EXPECT_TRUE(Bytes() == *ReadSource(sample));
  }

  auto file = RequestFile::Open(sample);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->manifest()->index().format(), 1);
  EXPECT_EQ(file->manifest()->index().sources(), 2);
  const auto read = file->Next();
  ASSERT_TRUE(read.has_value() && read->request.ok());
  EXPECT_EQ(RequestLine(*read), RequestLine(first));
  EXPECT_EQ(read->recorded.triton, "3.6.0");
  const auto other = file->Next();
  ASSERT_TRUE(other.has_value() && other->request.ok());
  EXPECT_EQ(RequestDigest(*other->request).Hex(), kRequestDigest);
  EXPECT_EQ(other->recorded.count, 2);
  EXPECT_FALSE(file->Next().has_value());
  EXPECT_EQ(
      OriginLine(file->origin()),
      R"({"manifest": {"job":"example","command":["python"],"host":"node-1","created_unix_ms":"1704067200000","versions":{"triton":"3.6.0"},"devices":["NVIDIA H100 80GB HBM3"]}})");
  EXPECT_TRUE(ForEachOwnEntry(sample, [&](const v1::OwnEntry& own) {
                EXPECT_EQ(own.SerializeAsString(), entry.SerializeAsString());
                return absl::OkStatus();
              }).ok());
}

TEST_F(ManifestTest, VersionsOfMergedManifestsAreAllNamed) {
  v1::ManifestOrigin origin;
  v1::ManifestOrigin more;
  for (const char* const version : {"3.6.0", "3.7.1", "3.6.0"}) {
    (*more.mutable_versions())["triton"] = version;
    Merge(more, origin);
  }
  EXPECT_EQ(origin.versions().at("triton"), "3.6.0, 3.7.1");
}

TEST_F(ManifestTest, MergedManifestsKeepOnlyTheJobThatAllHave) {
  const auto origin_of = [](const std::string& job, int64_t created_unix_ms) {
    v1::ManifestOrigin origin;
    origin.set_job(job);
    origin.set_model(job);
    origin.add_command(job);
    origin.set_host(job);
    origin.set_created_unix_ms(created_unix_ms);
    return origin;
  };
  v1::ManifestOrigin same;
  for (const int64_t moment : {2, 1}) Merge(origin_of("a", moment), same);
  EXPECT_EQ(same.SerializeAsString(), origin_of("a", 2).SerializeAsString());
  for (const std::string last : {"a", "b", "c", ""}) {
    v1::ManifestOrigin origin;
    for (const std::string& job : {std::string("a"), std::string("b"), last}) {
      Merge(origin_of(job, 1), origin);
    }
    EXPECT_EQ(origin.job() + origin.model() + origin.host(), "") << last;
    EXPECT_EQ(origin.command_size(), 0) << last;
  }
}

TEST_F(ManifestTest, OwnEntriesComeBackEachOnceAndAreNotInTheDigest) {
  Write({Numbered(1)});
  const std::string digest = ManifestReader::Open(path_)->index().digest();
  auto writer = ManifestWriter::Create(path_);
  ASSERT_TRUE((*writer)->Add(Numbered(1)).ok());
  for (int i = 0; i < 600; ++i) {
    v1::OwnEntry entry;
    entry.set_key(std::to_string(i % 300));
    entry.add_files()->set_name("times");
    ASSERT_TRUE((*writer)->AddOwn(entry).ok());
  }
  ASSERT_TRUE((*writer)->Finish({}).ok());
  EXPECT_EQ(ManifestReader::Open(path_)->index().digest(), digest);
  int seen = 0;
  EXPECT_TRUE(ForEachOwnEntry(path_, [&](const v1::OwnEntry& entry) {
                EXPECT_EQ(entry.key(), std::to_string(seen++));
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(seen, 300);
}

TEST_F(ManifestTest, LinesOfOwnEntriesAreNoRequests) {
  WriteFileOrDie(path_,
                 std::string("{\"own\":{\"key\":\"aw==\",\"files\":[{\"name\":\"a\",\"content\":"
                             "\"YmI=\"}]}}\n{\"own\":[]}\n") +
                     kLine + "\n");
  auto file = RequestFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Next()->name, "k");
  EXPECT_FALSE(file->Next().has_value());
  std::vector<std::string> seen;
  EXPECT_TRUE(ForEachOwnEntry(path_, [&](const v1::OwnEntry& entry) {
                seen.push_back(entry.key() + " " + entry.files(0).content());
                return absl::OkStatus();
              }).ok());
  EXPECT_THAT(seen, ElementsAre("k bb"));
}

TEST_F(ManifestTest, OnlyAFileThatNobodyElseMayWriteIsTrusted) {
  Write({Numbered(1)});
  using std::filesystem::perms;
  std::filesystem::permissions(path_, perms::owner_read | perms::owner_write | perms::others_read);
  EXPECT_TRUE(TrustedFile::Open(path_).has_value());
  for (const perms wrong : {perms::group_write, perms::others_write}) {
    std::filesystem::permissions(path_, perms::owner_read | wrong);
    EXPECT_FALSE(TrustedFile::Open(path_).has_value());
  }
  EXPECT_FALSE(TrustedFile::Open(path_ + ".none").has_value());
}

TEST_F(ManifestTest, TheOrderOfRequestsIsNotInTheDigest) {
  Write({Numbered(1), Numbered(2), Numbered(2)});
  const std::string one = ManifestReader::Open(path_)->index().digest();
  Write({Numbered(2), Numbered(1)});
  EXPECT_EQ(ManifestReader::Open(path_)->index().digest(), one);
}

TEST_F(ManifestTest, AManifestThatIsNotFinishedLeavesNothing) {
  {
    auto writer = ManifestWriter::Create(path_);
    ASSERT_TRUE((*writer)->Add(Numbered(1)).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

// Whatever byte is wrong: the reader says so, or gives the request as it was.
TEST_F(ManifestTest, AFlippedByteAnywhereGivesNoOtherRequest) {
  Write({Numbered(1), Numbered(2)});
  const std::string whole = Bytes();
  const std::vector<Digest> right = {RequestDigest(*Numbered(1).request),
                                     RequestDigest(*Numbered(2).request)};
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string harmed = whole;
    harmed[i] = static_cast<char>(harmed[i] ^ 0x10);
    WriteFileOrDie(path_, harmed);
    auto reader = ManifestReader::Open(path_);
    if (!reader.ok()) continue;
    while (const auto named = reader->Next()) {
      if (!named->request.ok()) continue;
      EXPECT_THAT(right, testing::Contains(RequestDigest(*named->request))) << "byte " << i;
    }
  }
}

TEST_F(ManifestTest, ACutAnywhereIsRefused) {
  Write({Numbered(1)});
  const std::string whole = Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFileOrDie(path_, whole.substr(0, size));
    EXPECT_FALSE(ManifestReader::Open(path_).ok()) << size;
  }
}

TEST_F(ManifestTest, NothingFollowsADamagedPage) {
  std::vector<NamedRequest> requests;
  for (int i = 0; i < 300; ++i) requests.push_back(Numbered(i));
  Write(requests);
  std::string harmed = Bytes();
  harmed[ManifestReader::Open(path_)->index().pages(1).offset()] ^= 0x10;
  WriteFileOrDie(path_, harmed);

  auto reader = ManifestReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(reader->Next()->request.ok());
  EXPECT_TRUE(absl::IsDataLoss(reader->Next()->request.status()));
  EXPECT_FALSE(reader->Next().has_value());
  EXPECT_FALSE(reader->Next().has_value());
}

TEST_F(ManifestTest, ANewerFormatIsRefusedByName) {
  v1::ManifestIndex index;
  index.set_format(kManifestFormat + 1);
  const std::string frame = *CompressFrame(index.SerializeAsString());
  const ManifestTrailer trailer{kManifestMagic.size(), frame.size(), Digest::Of(frame)};
  WriteFileOrDie(path_, std::string(kManifestMagic) + frame + trailer.Encode());
  EXPECT_THAT(std::string(ManifestReader::Open(path_).status().message()), HasSubstr("format 2"));
}

TEST_F(ManifestTest, AFrameThatSaysItIsHugeTakesNoMemory) {
  EXPECT_TRUE(
      absl::IsDataLoss(DecompressFrame(*CompressFrame(std::string(1 << 20, 'x')), 4096).status()));
}

}  // namespace
}  // namespace kiln::cli
