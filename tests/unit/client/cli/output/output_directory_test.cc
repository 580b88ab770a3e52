#include "client/cli/output/output_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "client/cli/output/json.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/client/fake_daemon.h"

namespace kiln::cli {
namespace {

class OutputDirectoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<OutputDirectory> Open() {
    auto output = OutputDirectory::Open(Path());
    EXPECT_TRUE(output.ok()) << output.status();
    return *std::move(output);
  }
  std::string Path() const { return directory_.File("deep/out"); }
  std::set<std::string> Files() const {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(Path())) {
      files.insert(entry.path().filename().string());
    }
    return files;
  }

  TempDirectory directory_;
};

TEST_F(OutputDirectoryTest, WritesStagesAndMetadata) {
  v1::CompileResponse response = AnswerTo(RequestFor("m"));
  *response.add_stages() = DistantStage("llir", "left where it is");
  ASSERT_TRUE(Open()->Write("my/k", "k", response).ok());
  EXPECT_EQ(Files(), (std::set<std::string>{"k.cubin", "k.json"}));
  EXPECT_EQ(ReadFileOrDie(Path() + "/k.cubin"), "cubin of m");
  const auto json = ParseJson(ReadFileOrDie(Path() + "/k.json"));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->at("name"), "my/k");
  EXPECT_EQ(json->at("key").get<std::string>().size(), 64u);
  EXPECT_EQ(json->at("metadata").at("target"), "cuda:90");
  EXPECT_EQ(json->at("stages").size(), 2u);
  EXPECT_EQ(json->at("stages").at(0).at("file"), "k.cubin");
}

TEST_F(OutputDirectoryTest, AStageIsNoPathEither) {
  v1::CompileResponse response = AnswerTo(RequestFor("m"));
  response.mutable_stages(0)->set_stage("../../escape");
  ASSERT_TRUE(Open()->Write("k", "k", response).ok());
  EXPECT_EQ(Files(), (std::set<std::string>{"k.%2E.%2F..%2Fescape", "k.json"}));
}

TEST_F(OutputDirectoryTest, ReplacesLinksInsteadOfFollowingThem) {
  const auto output = Open();
  WriteFileOrDie(directory_.File("victim"), "untouched");
  ASSERT_EQ(::symlink(directory_.File("victim").c_str(), (Path() + "/k.cubin").c_str()), 0);
  ASSERT_TRUE(output->Write("k", "k", AnswerTo(RequestFor("m"))).ok());
  EXPECT_EQ(ReadFileOrDie(directory_.File("victim")), "untouched");
  EXPECT_EQ(ReadFileOrDie(Path() + "/k.cubin"), "cubin of m");
}

TEST_F(OutputDirectoryTest, TheIndexNamesWhatWasWritten) {
  const auto output = Open();
  output->StartIndex();
  ASSERT_TRUE(output->Write("a/b", "a%2Fb", AnswerTo(RequestFor("1"))).ok());
  ASSERT_TRUE(output->Write("c", "c", AnswerTo(RequestFor("2"))).ok());
  EXPECT_FALSE(Files().contains("index.json"));
  ASSERT_TRUE(output->FinishIndex().ok());
  const auto index = ParseJson(ReadFileOrDie(Path() + "/index.json"));
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->size(), 2u);
  EXPECT_EQ(index->at(0).at("name"), "a/b");
  EXPECT_EQ(index->at(0).at("file"), "a%2Fb");
}

TEST_F(OutputDirectoryTest, AnUnfinishedIndexLeavesNothing) {
  Open()->StartIndex();
  EXPECT_TRUE(Files().empty());
}

TEST_F(OutputDirectoryTest, AnEmptyIndexIsAnEmptyList) {
  const auto output = Open();
  output->StartIndex();
  ASSERT_TRUE(output->FinishIndex().ok());
  EXPECT_EQ(ParseJson(ReadFileOrDie(Path() + "/index.json"))->size(), 0u);
}

TEST_F(OutputDirectoryTest, ALaterRunReplacesWhatAnEarlierOneWrote) {
  for (const std::string source : {"earlier", "later"}) {
    const auto output = Open();
    output->StartIndex();
    ASSERT_TRUE(output->Write("k", "k", AnswerTo(RequestFor(source))).ok());
    ASSERT_TRUE(output->FinishIndex().ok());
    EXPECT_EQ(ReadFileOrDie(Path() + "/k.cubin"), "cubin of " + source);
    EXPECT_EQ(Files(), (std::set<std::string>{"index.json", "k.cubin", "k.json"}));
  }
  struct stat info {};
  ASSERT_EQ(::stat((Path() + "/k.cubin").c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST_F(OutputDirectoryTest, AFileInItsPlaceIsAnError) {
  WriteFileOrDie(directory_.File("file"), "");
  EXPECT_FALSE(OutputDirectory::Open(directory_.File("file")).ok());
  EXPECT_FALSE(OutputDirectory::Open(directory_.File("file/below")).ok());
}

TEST_F(OutputDirectoryTest, AWriteThatFailsLeavesNothing) {
  const auto output = Open();
  ASSERT_EQ(::mkdir((Path() + "/k.cubin").c_str(), 0700), 0);
  EXPECT_FALSE(output->Write("k", "k", AnswerTo(RequestFor("m"))).ok());
  EXPECT_EQ(Files(), (std::set<std::string>{"k.cubin"}));
}

}  // namespace
}  // namespace kiln::cli
