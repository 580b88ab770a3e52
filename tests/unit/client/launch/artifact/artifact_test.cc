#include "client/launch/artifact/artifact.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/hot/artifact_file.h"
#include "tests/testing/launch/launch_artifacts.h"
#include "tests/testing/temp_directory.h"

namespace kiln::launch {
namespace {

const std::string kBinary = MadeElf("some code");
const std::string kJson = MadeDocument("softmax", {{"out_ptr", "*fp32"}, {"rows", "i32"}});

std::string HotFile(const std::string& stage = "cubin") {
  const NamedBlob stages[] = {{stage, Blob::FromBytes(kBinary)}};
  return *EncodeArtifactFile(Digest::Of("key"), kJson, "", stages);
}

class HotFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& content, mode_t mode = 0444) {
    const std::string path = directory_.File("artifact");
    WriteFileOrDie(path, content);
    ::chmod(path.c_str(), mode);
    return path;
  }
  Status Open(const std::string& path) {
    return Artifact::FromHotFile(path, std::nullopt, std::nullopt).status();
  }
  TempDirectory directory_;
};

TEST_F(HotFileTest, ReadsAHotFile) {
  const auto artifact = Artifact::FromHotFile(Write(HotFile()), Sha256("key"), std::nullopt);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->binary(), kBinary);
  EXPECT_EQ((*artifact)->id().key, Sha256("key"));
  EXPECT_EQ((*artifact)->metadata().name, "softmax");
  EXPECT_EQ((*artifact)->metadata().architecture, "90");
  EXPECT_EQ((*artifact)->metadata().parameters.size(), 2u);
  EXPECT_EQ((*artifact)->label(), "kernel softmax (key 2c70e12b7a06)");
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*artifact)->binary().data()) % 64, 0u);
}

TEST_F(HotFileTest, RefusesAFileOfAnotherKey) {
  const auto artifact = Artifact::FromHotFile(Write(HotFile()), Sha256("other"), std::nullopt);
  EXPECT_EQ(artifact.status().code(), Code::kDataLoss);
}

TEST_F(HotFileTest, EveryFlippedByteIsFound) {
  const std::string whole = HotFile();
  for (size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    EXPECT_FALSE(Open(Write(damaged)).ok()) << "byte " << i;
    ::unlink(directory_.File("artifact").c_str());
  }
}

TEST_F(HotFileTest, RefusesAFileWritableByOthers) {
  EXPECT_EQ(Open(Write(HotFile(), 0664)).code(), Code::kPermissionDenied);
  ::chmod(directory_.File("artifact").c_str(), 0444);
  EXPECT_TRUE(Open(directory_.File("artifact")).ok());
  ASSERT_EQ(::symlink("artifact", directory_.File("link").c_str()), 0);
  EXPECT_EQ(Open(directory_.File("link")).code(), Code::kPermissionDenied);
}

TEST_F(HotFileTest, ReadsAFileOfTheTrustedServerUid) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes files of others";
  const std::string path = Write(HotFile());
  ASSERT_EQ(::chown(path.c_str(), 12345, 0), 0);
  EXPECT_EQ(Open(path).code(), Code::kPermissionDenied);
  EXPECT_TRUE(Artifact::FromHotFile(path, std::nullopt, 12345).ok());
}

TEST_F(HotFileTest, MissingFileIsNotFound) {
  const Status status = Open(directory_.File("none"));
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("none: No such file"), std::string_view::npos);
}

TEST_F(HotFileTest, RefusesAFileWithoutALaunchableBinary) {
  const Status status = Open(Write(HotFile("ptx")));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("ends with ptx"), std::string_view::npos) << status.message();
}

TEST(ArtifactBytesTest, RefusesBytesWithoutADigest) {
  const auto artifact = Artifact::FromBytes(kJson, kBinary, std::nullopt, std::nullopt);
  EXPECT_EQ(artifact.status().code(), Code::kInvalidArgument);
}

TEST(ArtifactBytesTest, BytesOfAnotherDigestAreDataLoss) {
  const auto artifact = Artifact::FromBytes(kJson, kBinary, Sha256("other"), std::nullopt);
  EXPECT_EQ(artifact.status().code(), Code::kDataLoss);
  EXPECT_NE(artifact.status().message().find("kernel softmax (binary "), std::string_view::npos);
}

TEST(ArtifactBytesTest, RefusesBytesThatAreNotAnElfFile) {
  const std::string text = "no ELF file, but longer than the header of one would be, surely so";
  const auto artifact = Artifact::FromBytes(kJson, text, Sha256(text), std::nullopt);
  EXPECT_EQ(artifact.status().code(), Code::kInvalidArgument);
}

TEST(ArtifactBytesTest, IdWithoutAKeyDependsOnTheMetadata) {
  const auto id = [](const std::string& json, const std::optional<Sha256Digest>& key) {
    return (*Artifact::FromBytes(json, kBinary, Sha256(kBinary), key))->id();
  };
  const std::string cooperative = MadeDocument("softmax", {{"out_ptr", "*fp32"}, {"rows", "i32"}},
                                               R"({"launch_cooperative_grid": true})");
  EXPECT_NE(id(kJson, std::nullopt), id(cooperative, std::nullopt));
  EXPECT_EQ(id(kJson, std::nullopt), id(kJson, std::nullopt));
  EXPECT_EQ(id(kJson, Sha256("key")), id(cooperative, Sha256("key")));
}

// As the daemon's document of an artifact that was evicted and compiled again.
TEST(ArtifactBytesTest, IdWithoutAKeyIgnoresProvenance) {
  const auto id = [](const std::string& json) {
    return (*Artifact::FromBytes(json, kBinary, Sha256(kBinary), std::nullopt))->id();
  };
  std::string again = kJson;
  again.insert(1, R"("provenance": {"compiled_unix_ms": 1795368080848}, "timings": [3], )");
  EXPECT_EQ(id(kJson), id(again));
}

class JsonFileTest : public testing::Test {
 protected:
  // As `kiln compile -o` writes it.
  std::string Write(const std::string& file, const std::string& digest) {
    std::string metadata = kJson.substr(kJson.find("\"metadata\""));
    metadata.pop_back();
    const std::string path = directory_.File("softmax.json");
    WriteFileOrDie(path, "{\"key\": \"" + ToHex(Sha256("key")) +
                             "\", \"stages\": [{\"stage\": "
                             "\"cubin\", \"digest\": \"" +
                             digest + "\", \"file\": \"" + file + "\"}], " + metadata + "}");
    WriteFileOrDie(directory_.File("softmax.cubin"), kBinary);
    return path;
  }
  TempDirectory directory_;
};

TEST_F(JsonFileTest, FindsTheBinaryBesideTheJsonFile) {
  const auto artifact = Artifact::FromJsonFile(Write("softmax.cubin", ToHex(Sha256(kBinary))));
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->binary(), kBinary);
  EXPECT_EQ((*artifact)->id().key, Sha256("key"));
}

// The order of --emit, which is what a person happened to type.
TEST_F(JsonFileTest, FindsTheBinaryAtAnyPlaceAmongTheStages) {
  const std::string digest = ToHex(Sha256(kBinary));
  const std::string text =
      R"({"stage": "ptx", "digest": ")" + ToHex(Sha256("x")) + R"(", "file": "softmax.ptx"})";
  const std::string path = Write("softmax.cubin", digest);
  std::string json = ReadFileOrDie(path);
  json.insert(json.find(']'), ", " + text);
  WriteFileOrDie(path, json);
  const auto artifact = Artifact::FromJsonFile(path);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->binary(), kBinary);
}

TEST_F(JsonFileTest, RefusesABinaryInAnotherFolder) {
  for (const char* name : {"../softmax.cubin", "/etc/passwd", "..", ""}) {
    EXPECT_EQ(Artifact::FromJsonFile(Write(name, ToHex(Sha256(kBinary)))).status().code(),
              Code::kInvalidArgument)
        << name;
  }
}

TEST_F(JsonFileTest, BinaryOfAnotherDigestIsDataLoss) {
  EXPECT_EQ(Artifact::FromJsonFile(Write("softmax.cubin", ToHex(Sha256("x")))).status().code(),
            Code::kDataLoss);
}

}  // namespace
}  // namespace kiln::launch
