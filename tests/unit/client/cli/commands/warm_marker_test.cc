#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "client/cli/commands/warmth.h"
#include "client/cli/requests/manifest_writer.h"
#include "tests/testing/temp_directory.h"

namespace kiln::cli {
namespace {

class WarmMarkerTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteToolchains("one");
    WriteManifest("first.kiln", "one source");
    WriteManifest("second.kiln", "another");
  }

  void WriteToolchains(const std::string& content) {
    std::ofstream(directory_.path() + "/toolchains") << content;
  }
  void WriteManifest(const std::string& name, const std::string& text) {
    auto writer = ManifestWriter::Create(File(name));
    ASSERT_TRUE(writer.ok()) << writer.status();
    v1::CompileRequest request;
    request.mutable_source()->set_text(text);
    ASSERT_TRUE((*writer)->Add(NamedRequest{name, 1, request}).ok());
    ASSERT_TRUE((*writer)->Finish({}).ok());
  }
  std::string File(const std::string& name) const { return directory_.path() + "/" + name; }

  std::optional<std::string> NameOf(const WarmthQuestion& question) const {
    return WarmMarker::NameOf(question, directory_.path());
  }

  TempDirectory directory_;
};

TEST_F(WarmMarkerTest, WhatDecidesTheKeysIsInTheName) {
  const WarmthQuestion plain{{File("first.kiln")}, {}, {}};
  std::set<std::optional<std::string>> names = {NameOf(plain)};
  const auto is_new = [&](const WarmthQuestion& question) {
    return names.insert(NameOf(question)).second;
  };
  ASSERT_TRUE(NameOf(plain).has_value());
  EXPECT_FALSE(is_new(plain));
  EXPECT_TRUE(is_new({{File("second.kiln")}, {}, {}}));
  EXPECT_TRUE(is_new({{File("first.kiln"), File("second.kiln")}, {}, {}}));
  EXPECT_TRUE(is_new({plain.files, {}, {1, 3}}));
  WarmthQuestion changed = plain;
  changed.shape.request.set_toolchain("triton==3.7.0");
  EXPECT_TRUE(is_new(changed));
  changed = plain;
  changed.shape.targets.emplace_back().set_backend("cuda");
  EXPECT_TRUE(is_new(changed));
  WriteToolchains("another");
  EXPECT_TRUE(is_new(plain));
}

TEST_F(WarmMarkerTest, HowToAnswerIsNotInTheName) {
  WarmthQuestion question{{File("first.kiln")}, {}, {}};
  const auto plain = NameOf(question);
  question.shape.request.set_job("train");
  question.shape.request.set_priority(v1::PRIORITY_BACKGROUND);
  EXPECT_EQ(NameOf(question), plain);
}

TEST_F(WarmMarkerTest, NothingThatMayMeanAnotherSetTheNextTimeHasAName) {
  std::ofstream(File("lines.jsonl")) << "{}\n";
  EXPECT_FALSE(NameOf({{File("lines.jsonl")}, {}, {}}));
  EXPECT_FALSE(NameOf({{File("first.kiln"), "-"}, {}, {}}));
  WarmthQuestion refresh{{File("first.kiln")}, {}, {}};
  refresh.shape.request.set_cache_policy(v1::CACHE_POLICY_REFRESH);
  EXPECT_FALSE(NameOf(refresh));
  EXPECT_FALSE(WarmMarker::NameOf({{File("first.kiln")}, {}, {}}, File("no-directory")));
}

}  // namespace
}  // namespace kiln::cli
