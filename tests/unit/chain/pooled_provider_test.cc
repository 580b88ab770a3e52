#include "daemon/chain/pooled_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "storage/base/limits.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::HasSubstr;

class PooledProviderTest : public testing::Test {
 protected:
  absl::StatusOr<CompileResult> Compile(const CompileJobPtr& job) {
    std::promise<absl::StatusOr<CompileResult>> promise;
    provider_.Compile({}, job, [&](auto result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }
  absl::StatusOr<CompileResult> Compile(const std::string& what) {
    return Compile(MakeFakeJob(what));
  }

  TempDirectory directory_;
  FakeClock clock_;
  PooledProvider provider_{MakeFakeCompiler(), FakePoolOptions(directory_.File("work")), clock_};
};

TEST_F(PooledProviderTest, AnArtifactIsComplete) {
  const auto result = Compile("answer text");
  ASSERT_TRUE(result.ok()) << result.status();
  const Artifact* artifact = result->artifact();
  ASSERT_NE(artifact, nullptr);
  EXPECT_EQ(result->outcome, Outcome::kCompiled);
  EXPECT_EQ(artifact->key, Digest::Of("answer text"));
  EXPECT_EQ(artifact->metadata.name, "kernel");
  EXPECT_EQ(artifact->metadata.target, (Target{"cuda", "90", 32}));
  EXPECT_EQ(artifact->metadata.hidden_pointers, 2);
  ASSERT_EQ(artifact->stages.size(), 2u);
  EXPECT_EQ(artifact->stages[1].stage, "cubin");
  EXPECT_EQ(artifact->stages[1].blob.digest(), Digest::Of("binary of text"));
  EXPECT_EQ(artifact->provenance.toolchain, "fake==1.0");
  EXPECT_EQ(artifact->provenance.toolchain_fingerprint, Digest::Of("fake==1.0"));
  EXPECT_EQ(artifact->provenance.assembler, "fake 1.0");
  EXPECT_EQ(artifact->provenance.compiled_unix_ms, clock_.UnixMillis());
  EXPECT_EQ(artifact->provenance.compile_micros, 1500u);
  EXPECT_FALSE(artifact->provenance.kiln_version.empty());
  EXPECT_FALSE(artifact->provenance.host.empty());
}

TEST_F(PooledProviderTest, AFailureIsAValue) {
  const auto result = Compile("fail");
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_NE(result->failure(), nullptr);
  EXPECT_EQ(result->failure()->code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(result->failure()->column, 7);
}

TEST_F(PooledProviderTest, ACrashIsAStatusThatNamesTheProvider) {
  const auto result = Compile("segfault");
  EXPECT_TRUE(absl::IsInternal(result.status()));
  EXPECT_THAT(std::string(Message(result.status())), HasSubstr("pooled(fake-1.0)"));
}

TEST_F(PooledProviderTest, AnotherBackendIsAFailedPrecondition) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Compile(MakeFakeJob("answer x", "hip")).status()));
}

// Each within its limits, together more than a worker reads.
TEST_F(PooledProviderTest, TooManyWordsAreTheCallersMistake) {
  const auto job = MakeFakeJob("answer x");
  job->request.specialization.parameters.assign(
      limits::kParametersMax, {std::string(limits::kNameBytesMax, 'n'), "i32", {}, std::nullopt});
  const absl::Status status = Compile(job).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("give fewer"));
  EXPECT_TRUE(Compile("answer x").ok());
}

TEST_F(PooledProviderTest, DescribesItself) { EXPECT_EQ(provider_.Describe(), "pooled(fake-1.0)"); }

TEST(TritonZygoteCommandTest, IsIsolatedFromTheDaemonsEnvironment) {
  Toolchain toolchain;
  toolchain.interpreter = "/opt/triton/bin/python";
  const ZygoteCommand command = TritonZygoteCommand(toolchain, "/lib/worker.py", "/run/zygote", "");
  EXPECT_EQ(command.spawn.arguments[0], "/opt/triton/bin/python");
  EXPECT_EQ(command.spawn.arguments[1], "-I");
  EXPECT_EQ(command.spawn.arguments[2], "-B");
  EXPECT_THAT(
      command.spawn.environment,
      testing::UnorderedElementsAre("PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/run/zygote",
                                    "TMPDIR=/run/zygote", "TRITON_CACHE_DIR=/run/zygote"));
}

}  // namespace
}  // namespace kiln
