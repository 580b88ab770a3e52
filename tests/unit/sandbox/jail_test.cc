#include "daemon/sandbox/jail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "daemon/pool/worker_process.h"
#include "daemon/pool/zygote.h"
#include "daemon/sandbox/landlock.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr JailSupport kEverything{.landlock_abi = 6, .has_filters = true};
const JailNeeds kNeeds{.programs = {"/opt/ptxas"}, .libraries = {"/usr/lib/x"}};

TEST(JailTest, SwitchedOffItDescribesNothingAndSaysSo) {
  const Jail jail(Jail::Mode::kOff, kEverything);
  const auto described = jail.Describe(kNeeds, "/work");
  ASSERT_TRUE(described.ok());
  EXPECT_FALSE(described->has_value());
  EXPECT_THAT(jail.Problems(), ElementsAre(HasSubstr("workers.jail")));
}

TEST(JailTest, AllowsWritingOnlyInTheJobDirectory) {
  const Jail jail(Jail::Mode::kOn, kEverything);
  const auto described = jail.Describe(kNeeds, "/job/slot-0");
  ASSERT_TRUE(described.ok() && described->has_value());
  for (const JailPath& path : (*described)->paths) {
    const bool is_written = (path.access & landlock::kWriteFile) != 0;
    const bool is_run = (path.access & landlock::kExecute) != 0;
    EXPECT_EQ(is_written, path.path == "/job/slot-0" || path.path == "/dev/null") << path.path;
    EXPECT_EQ(is_run, path.path == "/opt/ptxas") << path.path;
    // A rule with a right that is not handled is an error to the kernel.
    EXPECT_EQ(path.access & ~(*described)->handled_files, 0u) << path.path;
  }
  EXPECT_THAT((*described)->filter, Not(IsEmpty()));
  EXPECT_THAT(jail.Problems(), IsEmpty());
}

TEST(JailTest, GrantsLoadersOnlyToProgramsThatNeedThem) {
  const std::string assembler = std::filesystem::read_symlink("/proc/self/exe").string();
  Jail jail(Jail::Mode::kOn, kEverything);
  jail.SetAssemblers({assembler});
  const auto paths_for = [&jail](const JailNeeds& needs) {
    std::vector<std::string> paths;
    const auto described = jail.Describe(needs, "/job");
    EXPECT_TRUE(described.ok() && described->has_value());
    for (const JailPath& path : (*described)->paths) paths.push_back(path.path);
    return paths;
  };
  EXPECT_THAT(paths_for({.programs = {}, .libraries = {"/opt/include"}}),
              IsSupersetOf({std::string("/etc/ld.so.cache"),
                            std::string("/sys/kernel/mm/transparent_hugepage"), assembler}));
  EXPECT_THAT(paths_for({.programs = {}, .libraries = {"/opt/include"}, .starts_nothing = true}),
              UnorderedElementsAre("/job", "/dev/null", "/opt/include"));
}

TEST(JailTest, AnOldKernelIsAskedOnlyForWhatItKnows) {
  const Jail jail(Jail::Mode::kRequired, {.landlock_abi = 1, .has_filters = true});
  const auto described = jail.Describe(kNeeds, "/work");
  ASSERT_TRUE(described.ok() && described->has_value());
  EXPECT_EQ((*described)->handled_files, (1u << 13) - 1);
  EXPECT_EQ((*described)->handled_network, 0u);
  EXPECT_EQ((*described)->scopes, 0u);
  for (const JailPath& path : (*described)->paths) {
    EXPECT_EQ(path.access & ~(*described)->handled_files, 0u) << path.path;
  }
}

TEST(JailTest, MissingKernelSupportIsReported) {
  const Jail jail(Jail::Mode::kOn, JailSupport{});
  const auto described = jail.Describe(kNeeds, "/work");
  ASSERT_TRUE(described.ok() && described->has_value());
  EXPECT_EQ((*described)->handled_files, 0u);
  EXPECT_THAT((*described)->filter, IsEmpty());
  EXPECT_THAT(jail.Problems(), ElementsAre(HasSubstr("Landlock"), HasSubstr("seccomp")));
}

TEST(JailTest, MissingKernelSupportFailsARequiredJail) {
  const Jail jail(Jail::Mode::kRequired, JailSupport{});
  const absl::Status status = jail.Describe(kNeeds, "/work").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("workers.require_jail"));
}

TEST(JailTest, TheLatestWorkersProblemsCount) {
  Jail jail(Jail::Mode::kOn, kEverything);
  EXPECT_TRUE(jail.Admit({"no_new_privs: Invalid argument"}).ok());
  EXPECT_THAT(jail.Problems(), ElementsAre(HasSubstr("no_new_privs")));
  EXPECT_TRUE(jail.Admit({}).ok());
  EXPECT_THAT(jail.Problems(), IsEmpty());

  Jail required(Jail::Mode::kRequired, kEverything);
  EXPECT_TRUE(absl::IsFailedPrecondition(required.Admit({"capabilities: denied"})));
  EXPECT_TRUE(required.Admit({}).ok());
}

TEST(JailTest, AWorkerIsJudgedByItsOwnProblemsWhileOthersAreAdmitted) {
  Jail jail(Jail::Mode::kRequired, kEverything);
  constexpr int kTries = 20'000;
  const auto count_admitted = [&](const std::vector<std::string>& problems) {
    int admitted = 0;
    for (int i = 0; i < kTries; ++i) admitted += jail.Admit(problems).ok() ? 1 : 0;
    return admitted;
  };
  auto without = std::async(std::launch::async, count_admitted, std::vector<std::string>());
  EXPECT_EQ(count_admitted({"capabilities: denied"}), 0);
  EXPECT_EQ(without.get(), kTries);
}

// Between zygote and jail.
class JailedZygoteTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(Jail::Mode mode, const std::string& kind) {
    ZygoteCommand command = FakeZygote(kind);
    command.jail = jail_ = std::make_shared<Jail>(mode, JailSupport::OfThisKernel());
    auto zygote = Zygote::Start(command, stop_);
    EXPECT_TRUE(zygote.ok()) << zygote.status();
    zygote_ = *std::move(zygote);
    return WorkerProcess::Start(zygote_, directory_.path() + "/worker", {});
  }

  TempDirectory directory_;
  WakeEvent stop_;
  std::shared_ptr<Jail> jail_;
  std::shared_ptr<Zygote> zygote_;
};

TEST_F(JailedZygoteTest, AWorkerThatIsNotInItsJailIsUsedAndReported) {
  const auto worker = Start(Jail::Mode::kOn, "escapes");
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_TRUE((*worker)->IsReady());
  EXPECT_THAT(jail_->Problems(), Contains("it did not like it"));
}

TEST_F(JailedZygoteTest, WorkerOutsideARequiredJailEndsBeforeItReads) {
  const auto worker = Start(Jail::Mode::kRequired, "escapes");
  EXPECT_TRUE(absl::IsFailedPrecondition(worker.status())) << worker.status();
  EXPECT_EQ(LivingDescendants().size(), 1u);  // the zygote
}

TEST_F(JailedZygoteTest, WorkerThatDiesEnteringTheJailIsReported) {
  const auto worker = Start(Jail::Mode::kOn, "dies-entering");
  EXPECT_TRUE(absl::IsUnavailable(worker.status())) << worker.status();
  EXPECT_THAT(std::string(Message(worker.status())), HasSubstr("the door is narrow"));
  EXPECT_EQ(LivingDescendants().size(), 1u);  // the zygote
}

}  // namespace
}  // namespace kiln
