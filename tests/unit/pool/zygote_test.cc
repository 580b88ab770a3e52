#include "daemon/pool/zygote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <utility>

#include "daemon/process/frame.h"
#include "storage/base/filesystem.h"
#include "storage/base/limits.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/no_more_descriptors.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

absl::Status StartError(const std::string& mode) {
  ZygoteCommand command = FakeZygote(mode);
  const WakeEvent stop;
  return Zygote::Start(command, stop).status();
}

class FixedSeal final : public ToolchainSeal {
 public:
  explicit FixedSeal(absl::Status status) : status_(std::move(status)) {}
  absl::Status Check() const override { return status_; }

 private:
  const absl::Status status_;
};

class ZygoteTest : public testing::Test {
 protected:
  absl::StatusOr<pid_t> Fork(Zygote& zygote) {
    std::array<int, 2> sockets{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
    job_ = UniqueFd(sockets[0]);
    const UniqueFd theirs(sockets[1]);
    return zygote.Fork(theirs.get(), STDERR_FILENO, directory_.path(), {});
  }

  TempDirectory directory_;
  WakeEvent stop_;
  UniqueFd job_;
};

TEST_F(ZygoteTest, ForksWorkersThatLeadTheirGroups) {
  const auto zygote = Zygote::Start(FakeZygote(), stop_);
  ASSERT_TRUE(zygote.ok()) << zygote.status();
  const auto worker = Fork(**zygote);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(getpgid(*worker), *worker);
  const auto wait_status = (*zygote)->EndWorker(*worker);
  ASSERT_TRUE(wait_status.has_value());
  EXPECT_EQ(DescribeWaitStatus(*wait_status), "SIGKILL");
  EXPECT_EQ(kill(*worker, 0), -1);
}

TEST_F(ZygoteTest, ForksAWorkerWhileAnotherOneEntersItsJail) {
  const auto zygote = Zygote::Start(FakeZygote("waits-entering"), stop_);
  ASSERT_TRUE(zygote.ok()) << zygote.status();
  const auto first = Fork(**zygote);
  const UniqueFd of_first = std::move(job_);
  const auto second = Fork(**zygote);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  pollfd polled{of_first.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  std::ofstream(directory_.path() + "/go").put('.');
  for (const int job : {of_first.get(), job_.get()}) {
    const auto frame = ReceiveFrame(job, {});
    ASSERT_TRUE(frame.ok()) << frame.status();
    EXPECT_EQ(frame->type, FrameType::kReady);
  }
  (*zygote)->EndWorker(*first);
  (*zygote)->EndWorker(*second);
}

TEST_F(ZygoteTest, WorkersAreTheFirstToGoWhenMemoryEnds) {
  const auto zygote = Zygote::Start(FakeZygote(), stop_);
  const auto worker = Fork(**zygote);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto score =
      OsFilesystem().Read(fmt::format("/proc/{}/oom_score_adj", *worker), limits::kKiB);
  (*zygote)->EndWorker(*worker);
  ASSERT_TRUE(score.ok()) << score.status();
  EXPECT_EQ(*score, "1000\n");
}

TEST_F(ZygoteTest, ChangedInterpreterIsNotRun) {
  ZygoteCommand command = FakeZygote();
  command.seal = std::make_shared<FixedSeal>(FailedPrecondition("bin/python is another"));
  const absl::Status refused = Zygote::Start(command, stop_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("was changed: bin/python is another"));
}

TEST_F(ZygoteTest, UnreadableInterpreterIsNotRunNorCalledChanged) {
  ZygoteCommand command = FakeZygote();
  command.seal = std::make_shared<FixedSeal>(Unavailable("too many open files"));
  const absl::Status refused = Zygote::Start(command, stop_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(refused)),
              AllOf(HasSubstr("cannot be looked at"), HasSubstr("too many open files"),
                    Not(HasSubstr("changed"))));
}

TEST_F(ZygoteTest, LeavesNoProcessBehind) {
  {
    const auto zygote = Zygote::Start(FakeZygote(), stop_);
    const auto worker = Fork(**zygote);
    ASSERT_TRUE(worker.ok());
    EXPECT_EQ(LivingDescendants().size(), 2u);
    (*zygote)->EndWorker(*worker);
  }
  EXPECT_THAT(LivingDescendants(), testing::IsEmpty());
}

TEST_F(ZygoteTest, AWorkerIsEndedAlsoAfterItsZygoteDied) {
  const auto zygote = Zygote::Start(FakeZygote(), stop_);
  const auto worker = Fork(**zygote);
  ASSERT_TRUE(worker.ok());
  kill((*zygote)->pid(), SIGKILL);
  (*zygote)->WaitForDeath(stop_);
  EXPECT_FALSE((*zygote)->IsAlive());
  EXPECT_TRUE(absl::IsUnavailable(Fork(**zygote).status()));
  (*zygote)->EndWorker(*worker);
  EXPECT_THAT(LivingDescendants(), testing::IsEmpty());
}

// Nobody has heard of that worker, so nobody but the zygote's end can reap it.
TEST_F(ZygoteTest, AWorkerForkedJustBeforeTheZygotesDeathIsNotForgotten) {
  const auto zygote = Zygote::Start(FakeZygote("dies-forking"), stop_);
  ASSERT_TRUE(zygote.ok()) << zygote.status();
  EXPECT_TRUE(absl::IsUnavailable(Fork(**zygote).status()));
  EXPECT_THAT(LivingDescendants(), testing::IsEmpty());
}

TEST_F(ZygoteTest, AJailThatNoMessageHoldsIsRefusedAndTheZygoteLives) {
  std::vector<std::string> assemblers;
  for (int i = 0; i < 2000; ++i) {
    assemblers.push_back(
        fmt::format("/a/toolchain/with/a/rather/long/name/of/its/own/{}/ptxas", i));
  }
  ZygoteCommand command = FakeZygote();
  command.jail = std::make_shared<Jail>(Jail::Mode::kOn, JailSupport::OfThisKernel());
  command.jail->SetAssemblers(assemblers);
  const auto zygote = Zygote::Start(command, stop_);
  ASSERT_TRUE(zygote.ok()) << zygote.status();
  const absl::Status status = Fork(**zygote).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("files and directories"));
  command.jail->SetAssemblers({});
  const auto worker = Fork(**zygote);
  ASSERT_TRUE(worker.ok()) << worker.status();
  (*zygote)->EndWorker(*worker);
}

TEST_F(ZygoteTest, GivesUpASilentProgram) {
  ZygoteCommand command = FakeZygote("silent");
  // Long enough that a loaded machine has started it by then: its words are looked for.
  command.start_time = std::chrono::seconds(3);
  const absl::Status status = Zygote::Start(command, stop_).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("zygote's words"));
  EXPECT_THAT(LivingDescendants(), testing::IsEmpty());
}

TEST_F(ZygoteTest, StartingCanBeStopped) {
  ASSERT_TRUE(stop_.Open().ok());
  stop_.Set();
  EXPECT_TRUE(absl::IsCancelled(Zygote::Start(FakeZygote("silent"), stop_).status()));
  EXPECT_THAT(LivingDescendants(), testing::IsEmpty());
}

TEST_F(ZygoteTest, EndsAProgramThatDoesNotGreetProperly) {
  EXPECT_THAT(std::string(Message(StartError("dies"))), HasSubstr("zygote's words"));
  EXPECT_THAT(std::string(Message(StartError("garbage"))), HasSubstr("JSON"));
  EXPECT_THAT(std::string(Message(StartError("failed"))), HasSubstr("no module named triton"));
  EXPECT_THAT(std::string(Message(StartError("protocol"))), HasSubstr("protocol 3"));
  EXPECT_THAT(std::string(Message(StartError("version"))),
              HasSubstr("version 9.9 now and was 1.0"));
  EXPECT_THAT(LivingDescendants(), testing::IsEmpty());
}

TEST_F(ZygoteTest, MissingProgramSaysSo) {
  ZygoteCommand command = FakeZygote();
  command.spawn.arguments[0] = "/nonexistent/python";
  EXPECT_THAT(std::string(Message(Zygote::Start(command, stop_).status())),
              HasSubstr("/nonexistent/python"));
}

TEST_F(ZygoteTest, RefusalToForkIsPassedOn) {
  const auto zygote = Zygote::Start(FakeZygote("infertile"), stop_);
  EXPECT_THAT(std::string(Message(Fork(**zygote).status())), HasSubstr("no more processes"));
  EXPECT_TRUE((*zygote)->IsAlive());
}

// It takes none to know whose child a worker is.
TEST_F(ZygoteTest, LackOfDescriptorsDoesNotHideAChild) {
  const auto zygote = Zygote::Start(FakeZygote(), stop_);
  ASSERT_TRUE(zygote.ok()) << zygote.status();
  std::array<int, 2> sockets{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  const UniqueFd ours(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  absl::StatusOr<pid_t> worker;
  {
    const NoMoreDescriptors shortage;
    worker = (*zygote)->Fork(theirs.get(), STDERR_FILENO, directory_.path(), {});
  }
  EXPECT_TRUE((*zygote)->IsAlive());
  ASSERT_TRUE(worker.ok()) << worker.status();
  (*zygote)->EndWorker(*worker);
}

// Otherwise it could have the daemon kill any process group.
TEST_F(ZygoteTest, RefusesAPidThatIsNotAChildOfTheZygote) {
  const auto zygote = Zygote::Start(FakeZygote("barren"), stop_);
  EXPECT_TRUE(absl::IsUnavailable(Fork(**zygote).status()));
  EXPECT_FALSE((*zygote)->IsAlive());
}

}  // namespace
}  // namespace kiln
