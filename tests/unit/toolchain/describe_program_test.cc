#include "daemon/toolchain/describe_program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <vector>

#include "storage/base/limits.h"
#include "storage/base/unique_fd.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr seconds kPlenty{60};

// While it lives, this process gets `free` descriptors beyond those that it has; what it starts has
// room for some dozens.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t free) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{128, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    while (true) {
      UniqueFd taken(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
      if (!taken) break;
      taken_.push_back(std::move(taken));
    }
    taken_.resize(taken_.size() - free);
  }
  ~FewDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<UniqueFd> taken_;
};

class DescribeProgramTest : public testing::Test {
 protected:
  DescribeProgramTest() : toolchain_(directory_.File("a")) {
    fs::create_directory(directory_.File("work"));
    // As the daemon is: orphans become its children, so it can wait for their end.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  ~DescribeProgramTest() override { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }

  absl::StatusOr<std::string> Describe(milliseconds time = kPlenty) {
    return RunDescribe(
        {toolchain_.interpreter(), "-I", "-B", "/opt/worker.py", "--describe", "--output-fd", "3"},
        directory_.File("work"), time);
  }
  std::string Failure(milliseconds time = kPlenty) {
    const auto answer = Describe(time);
    EXPECT_FALSE(answer.ok());
    return std::string(Message(answer.status()));
  }

  TempDirectory directory_;
  FakeToolchain toolchain_;
};

TEST_F(DescribeProgramTest, GivesTheAnswer) {
  toolchain_.Answer("{\"protocol\": 1}");
  const auto answer = Describe();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, "{\"protocol\": 1}");
}

TEST_F(DescribeProgramTest, OtherOutputIsNotPartOfTheAnswer) {
  toolchain_.Run("echo noise; echo warning >&2");
  toolchain_.Answer("{}");
  EXPECT_EQ(*Describe(), "{}");
}

TEST_F(DescribeProgramTest, RunsTheWorkerInAnEmptyEnvironmentAndDirectory) {
  ASSERT_EQ(::setenv("TRITON_PTXAS_PATH", "/tmp/other", 1), 0);
  ASSERT_EQ(::setenv("PYTHONPATH", "/tmp/other", 1), 0);
  toolchain_.Run("echo \"$@\" >&3; pwd -P >&3; ls -A >&3; env >&3; exit 0");
  const auto answer = Describe();
  ::unsetenv("TRITON_PTXAS_PATH");
  ::unsetenv("PYTHONPATH");
  ASSERT_TRUE(answer.ok()) << answer.status();
  const std::string scratch = fs::canonical(directory_.File("work")).string() + "/describe-";
  EXPECT_THAT(*answer,
              testing::StartsWith("-I -B /opt/worker.py --describe --output-fd 3\n" + scratch));
  EXPECT_THAT(*answer, AllOf(HasSubstr("\nTMPDIR=" + directory_.File("work") + "/describe-"),
                             HasSubstr("\nTRITON_CACHE_DIR="), HasSubstr("\nHOME=")));
  EXPECT_THAT(*answer, AllOf(Not(HasSubstr("TRITON_PTXAS_PATH")), Not(HasSubstr("PYTHONPATH"))));
}

TEST_F(DescribeProgramTest, LeavesNothingBehind) {
  toolchain_.Run("mkdir -p cache/deep; echo x > cache/deep/file; echo y > \"$TMPDIR/left\"");
  EXPECT_TRUE(Describe().ok());
  EXPECT_TRUE(fs::is_empty(directory_.File("work")));
  toolchain_.Run("echo x > left; exit 1");
  EXPECT_FALSE(Describe().ok());
  EXPECT_TRUE(fs::is_empty(directory_.File("work")));
}

TEST_F(DescribeProgramTest, AFailureComesWithItsLastWords) {
  toolchain_.Run("echo Traceback >&2; echo 'ImportError: no such thing' >&2; exit 3");
  EXPECT_THAT(Failure(), AllOf(HasSubstr("exit status 3"), HasSubstr("ImportError: no such thing"),
                               Not(HasSubstr("Traceback"))));
}

TEST_F(DescribeProgramTest, ASilentFailureSaysThatItWasSilent) {
  toolchain_.Run("exit 1");
  EXPECT_THAT(Failure(), HasSubstr("wrote nothing"));
}

TEST_F(DescribeProgramTest, ACrashNamesItsSignal) {
  toolchain_.Run("kill -SEGV $$");
  EXPECT_THAT(Failure(), HasSubstr("SIGSEGV"));
}

TEST_F(DescribeProgramTest, LastWordsAreOneLineOfText) {
  toolchain_.Run("printf 'a\\033[31mb\\377' >&2; exit 1");
  EXPECT_THAT(Failure(), HasSubstr("a?[31mb?"));
}

TEST_F(DescribeProgramTest, EndsAHungProgramWithItsChildren) {
  toolchain_.Run("sleep 600 & echo $! > '" + directory_.File("pid") + "'; wait");
  // Long enough for a busy machine to get as far as writing the number down.
  const auto answer = Describe(milliseconds(2000));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(Message(answer.status())), HasSubstr("2000 ms"));
  const pid_t child = std::stoi(ReadFileOrDie(directory_.File("pid")));
  EXPECT_EQ(::kill(child, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_TRUE(fs::is_empty(directory_.File("work")));
}

// However many are lacking: nothing of that is the program's fault.
TEST_F(DescribeProgramTest, ProgramWithoutDescriptorsMayBeTriedAgain) {
  toolchain_.Answer("{}");
  size_t free = 0;
  absl::StatusOr<std::string> answer = Describe();
  ASSERT_TRUE(answer.ok()) << answer.status();
  do {
    const FewDescriptors shortage(free);
    answer = Describe(seconds(5));
    EXPECT_TRUE(answer.ok() || absl::IsResourceExhausted(answer.status())) << answer.status();
  } while (!answer.ok() && ++free < 20);
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_GT(free, 0u);
}

TEST_F(DescribeProgramTest, KillsProcessesThatAProgramLeavesRunning) {
  toolchain_.Run("sleep 600 & echo $! > '" + directory_.File("pid") + "'");
  EXPECT_TRUE(Describe().ok());
  const pid_t child = std::stoi(ReadFileOrDie(directory_.File("pid")));
  EXPECT_EQ(::kill(child, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(DescribeProgramTest, AnEndlessAnswerIsCutShort) {
  toolchain_.Run("yes >&3 2>/dev/null; exit 0");
  const auto answer = Describe();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->size(), limits::kToolchainDescriptionBytesMax + 1);
}

TEST_F(DescribeProgramTest, AProgramThatDoesNotStartIsAnError) {
  EXPECT_FALSE(
      RunDescribe({directory_.File("missing"), "x"}, directory_.File("work"), kPlenty).ok());
  EXPECT_FALSE(
      RunDescribe({toolchain_.interpreter(), "x"}, directory_.File("missing"), kPlenty).ok());
}

}  // namespace
}  // namespace kiln
