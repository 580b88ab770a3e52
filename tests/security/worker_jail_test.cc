// What a source that has taken over a worker can reach: the real worker programs in the real jail,
// with compilers that do what the source says (attacks.py, attacking_ptxas.cc). Everything that is
// refused is also done without the jail, or a test that can only pass would prove nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "daemon/chain/pooled_provider.h"
#include "daemon/sandbox/enter_jail.h"
#include "daemon/sandbox/work_mount.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/real_toolchains.h"
#include "tests/testing/simple_source.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// A pool of one worker: Triton's, or that of a ptxas.
class TakenOver {
 public:
  enum class Compiler { kTriton, kPtxas };

  TakenOver(Jail::Mode mode, JailSupport support, Compiler compiler = Compiler::kTriton,
            const WorkerLimits& limits = {}, std::shared_ptr<WorkerGroups> groups = nullptr)
      : jail_(std::make_shared<Jail>(mode, support)), compiler_(compiler) {
    WorkerPoolOptions options;
    options.work_directory = directory_.File("work");
    const std::string zygote = directory_.File("zygote");
    if (compiler == Compiler::kTriton) {
      toolchain_ = RealTriton();
      options.zygote = TritonZygoteCommand(*toolchain_, KILN_ATTACKS, zygote, InstalledJemalloc());
    } else {
      toolchain_ = InstallPtxas();
      options.zygote =
          NativeZygoteCommand(*toolchain_, NativeWorker(), zygote, InstalledJemalloc());
    }
    options.zygote.jail = jail_;
    options.zygote.groups = std::move(groups);
    options.worker_limits = limits;
    provider_ = std::make_unique<PooledProvider>(toolchain_, options, SystemClock());
    Restore();
  }

  std::filesystem::file_time_type TimeOfPtxas() const {
    return std::filesystem::last_write_time(Ptxas());
  }
  void RunPtxasByHand(const std::string& attack) const {
    WriteFileOrDie(directory_.File("kernel.ptx"), "attack " + attack);
    EXPECT_NE(std::system(("cd " + directory_.path() + " && ./ptxas 2>/dev/null").c_str()), 0);
  }

  // What is outside the job's directory and must stay as it is.
  std::string Outside() const { return directory_.File("outside"); }
  void Restore() {
    std::error_code error;
    std::filesystem::remove(Outside() + ".moved", error);
    std::filesystem::remove_all(Outside() + "-new", error);
    std::ofstream(Outside()) << "as it was";
    std::filesystem::permissions(
        Outside(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  std::string OutsideContent() const {
    std::ifstream file(Outside());
    std::string text;
    std::getline(file, text);
    return text;
  }

  absl::StatusOr<CompileResult> Compile(const std::string& source) {
    auto job = std::make_shared<CompileJob>();
    job->request.source.text = source;
    if (compiler_ == Compiler::kPtxas) job->request.source.kind = SourceKind::kPtx;
    job->request.target = {"cuda", "90", 0};
    job->toolchain = toolchain_;
    std::promise<absl::StatusOr<CompileResult>> promise;
    provider_->Compile({}, job, [&](auto result) { promise.set_value(std::move(result)); });
    return promise.get_future().get();
  }

  // "done: …" or "refused: …".
  std::string Try(const std::string& attack) {
    const auto result = Compile("attack " + attack);
    EXPECT_TRUE(result.ok()) << attack << ": " << result.status();
    if (!result.ok()) return std::string(Message(result.status()));
    return result->failure() == nullptr ? "compiled" : result->failure()->message;
  }

  std::vector<std::string> Problems() const { return jail_->Problems(); }

 private:
  std::string Ptxas() const { return directory_.File("ptxas"); }

  std::shared_ptr<const Toolchain> InstallPtxas() const {
    std::filesystem::copy_file(KILN_ATTACKING_PTXAS, Ptxas());
    auto ptxas = std::make_shared<Toolchain>(*RealPtxas());
    ptxas->version = "1.2.3";
    ptxas->directory = Ptxas();
    ptxas->fingerprint = Digest::Of(ReadFileOrDie(Ptxas()));
    return ptxas;
  }

  TempDirectory directory_;
  std::shared_ptr<Jail> jail_;
  Compiler compiler_;
  std::shared_ptr<const Toolchain> toolchain_;
  std::unique_ptr<PooledProvider> provider_;
};

bool KernelHasAll() {
  const JailSupport support = JailSupport::OfThisKernel();
  return support.landlock_abi >= 1 && support.has_filters;
}

// Not every file system keeps attributes.
bool AttributesCanBeSet() {
  const TempDirectory directory;
  return setxattr(directory.path().c_str(), "user.kiln", "x", 1, 0) == 0;
}

// Yama may let a process trace its descendants alone.
bool ParentsCanBeTraced() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return !(file >> scope) || scope == 0;
}

// On a thread without capabilities, whose children have none either: a daemon that runs as an
// ordinary user. The kernel keeps a worker from many a thing that it would do to a privileged one.
void WithoutPrivileges(const std::function<void()>& body) {
  std::thread([&] {
    EXPECT_THAT(EnterJail({}), IsEmpty());
    body();
  }).join();
}

class WorkerJailTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!KernelHasAll()) GTEST_SKIP() << "this kernel has no Landlock or no seccomp";
  }

  // OUT is the file outside.
  std::string Expand(std::string attack, const TakenOver& worker) {
    const size_t at = attack.find("OUT");
    return at == std::string::npos ? attack : attack.replace(at, 3, worker.Outside());
  }

  void ExpectOnlyTheJailPrevents(const std::vector<std::string>& attacks) {
    TakenOver jailed(Jail::Mode::kRequired, JailSupport::OfThisKernel());
    TakenOver free(Jail::Mode::kOff, JailSupport::OfThisKernel());
    for (const std::string& attack : attacks) {
      EXPECT_THAT(jailed.Try(Expand(attack, jailed)), StartsWith("refused: ")) << attack;
      EXPECT_EQ(jailed.OutsideContent(), "as it was") << attack;
      EXPECT_THAT(free.Try(Expand(attack, free)), StartsWith("done: ")) << attack;
      free.Restore();
    }
    EXPECT_THAT(jailed.Problems(), IsEmpty());
  }
};

TEST_F(WorkerJailTest, FilesOfOthersCannotBeReached) {
  ExpectOnlyTheJailPrevents({"read /etc/passwd", "read-environment", "read /proc/self/environ",
                             "read OUT", "list /", "list /etc", "list /proc", "list /tmp",
                             "symbolic-link"});
}

TEST_F(WorkerJailTest, TheFirstProcessKeepsItsSecrets) {
  constexpr char kEnvironment[] = "/proc/1/environ";
  if (!std::ifstream(kEnvironment)) {
    GTEST_SKIP() << "not even the daemon may read it here";
  }
  ExpectOnlyTheJailPrevents({std::string("read ") + kEnvironment});
}

TEST_F(WorkerJailTest, CannotChangeFilesOutsideTheJobDirectory) {
  ExpectOnlyTheJailPrevents({"write OUT", "write OUT-new", "remove OUT", "rename OUT",
                             "make-directory OUT-new", "truncate OUT", "hard-link OUT", "chmod OUT",
                             "chown OUT", "utime OUT", "write /dev/shm/kiln-jail-test",
                             "remove /dev/shm/kiln-jail-test"});
}

// The owner of a file may set its times through any descriptor, which would break the snapshot of a
// toolchain for everybody.
TEST_F(WorkerJailTest, NoTimeIsSetThroughADescriptor) {
  ExpectOnlyTheJailPrevents({"utime-through-a-descriptor"});
}

TEST_F(WorkerJailTest, NoAssemblerSetsATimeThroughADescriptor) {
  constexpr char kAttack[] = "utime-through-a-descriptor";
  TakenOver jailed(Jail::Mode::kRequired, JailSupport::OfThisKernel(), TakenOver::Compiler::kPtxas);
  const auto before = jailed.TimeOfPtxas();
  EXPECT_THAT(jailed.Try(kAttack), HasSubstr("refused: "));
  EXPECT_EQ(jailed.TimeOfPtxas(), before);
  jailed.RunPtxasByHand(kAttack);
  EXPECT_NE(jailed.TimeOfPtxas(), before);
  EXPECT_THAT(jailed.Problems(), IsEmpty());
}

// The wall behind which the jail stands: what a worker sees where neither Landlock nor a filter
// keeps it.
TEST_F(WorkerJailTest, FilesOfTheMachineAreNotThereEvenWithoutLandlock) {
  const TempDirectory store;
  WriteFileOrDie(store.File("artifact"), "code that others run");
  WorkerLimits limits;
  limits.disk_bytes = limits::kMiB;
  limits.disk_entries = 16;
  if (const absl::Status mounted = CanMountWorkDirectory("/tmp", limits, {}); !mounted.ok()) {
    GTEST_SKIP() << mounted;
  }
  const std::string artifact = store.File("artifact");
  TakenOver bare(Jail::Mode::kOn, {}, TakenOver::Compiler::kTriton, limits);
  for (const std::string& attack :
       {"read " + artifact, "write " + artifact, std::string("read /etc/passwd"),
        std::string("read /proc/self/environ"), std::string("list /proc")}) {
    EXPECT_THAT(bare.Try(attack), HasSubstr("refused: FileNotFoundError")) << attack;
  }
  EXPECT_THAT(bare.Try("assemble"), StartsWith("done: "));
  TakenOver seeing(Jail::Mode::kOff, {}, TakenOver::Compiler::kTriton, limits);
  EXPECT_THAT(seeing.Try("read " + artifact), StartsWith("done: "));
}

TEST_F(WorkerJailTest, NoDirectoryIsMadeInTheJobsOwn) {
  ExpectOnlyTheJailPrevents({"make-directory inside"});
}

TEST_F(WorkerJailTest, NoAttributeIsSetOutsideTheJobsDirectory) {
  if (!AttributesCanBeSet()) GTEST_SKIP() << "this file system has no attributes";
  ExpectOnlyTheJailPrevents({"set-attribute OUT"});
}

TEST_F(WorkerJailTest, CannotMakeSockets) {
  ExpectOnlyTheJailPrevents(
      {"inet-socket", "datagram-socket", "unix-socket", "netlink-socket", "socket-pair"});
}

TEST_F(WorkerJailTest, NoProgramRunsButTheAssembler) {
  ExpectOnlyTheJailPrevents({"shell", "python", "written-program", "memory-program"});
}

TEST_F(WorkerJailTest, OtherProcessesAreOutOfReach) {
  WithoutPrivileges([this] {
    ExpectOnlyTheJailPrevents({"ptrace", "kill", "kill-group", "signal-through-a-file",
                               "pin-another", "limit-another", "session", "raise-priority"});
  });
}

// In a control group of the kind that this machine has.
TEST_F(WorkerJailTest, AForkBombIsHeld) {
  auto groups = WorkerGroups::Open(ControlGroups::Find(OsFilesystem(), ""), {.threads = 16});
  if (!groups.ok()) GTEST_SKIP() << groups.status();
  TakenOver jailed(Jail::Mode::kRequired, JailSupport::OfThisKernel(), TakenOver::Compiler::kTriton,
                   {}, *std::move(groups));
  EXPECT_THAT(jailed.Try("breed"), HasSubstr("refused: BlockingIOError"));
  EXPECT_THAT(jailed.Try("assemble"), StartsWith("done: "));
}

TEST_F(WorkerJailTest, FilesFitTheTmpfs) {
  WorkerLimits small;
  small.disk_bytes = limits::kMiB;
  small.disk_entries = 16;
  if (const absl::Status mounted = CanMountWorkDirectory("/tmp", small, {}); !mounted.ok()) {
    GTEST_SKIP() << mounted;
  }
  TakenOver jailed(Jail::Mode::kRequired, JailSupport::OfThisKernel(), TakenOver::Compiler::kTriton,
                   small);
  EXPECT_THAT(jailed.Try("fill 2097152"), HasSubstr("No space left"));
  EXPECT_THAT(jailed.Try("fill 65536"), StartsWith("done: "));
  EXPECT_THAT(jailed.Try("assemble"), StartsWith("done: "));
  EXPECT_THAT(jailed.Problems(), IsEmpty());
}

TEST_F(WorkerJailTest, OtherProcessesCannotBeTraced) {
  if (!ParentsCanBeTraced()) GTEST_SKIP() << "not even without the jail, here";
  WithoutPrivileges([this] { ExpectOnlyTheJailPrevents({"seize"}); });
}

TEST_F(WorkerJailTest, NoPrivilegeIsLeft) {
  if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) != 1) {
    GTEST_SKIP() << "only root has privileges to lose";
  }
  ExpectOnlyTheJailPrevents({"mount", "new-user-namespace"});
}

TEST_F(WorkerJailTest, TheWorkItselfGoesOn) {
  TakenOver jailed(Jail::Mode::kRequired, JailSupport::OfThisKernel());
  EXPECT_THAT(jailed.Try("assemble"), StartsWith("done: "));
  const auto compiled = jailed.Compile(SimpleSource(1));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->failure(), nullptr);
}

// Older kernels know fewer rights; this one plays them.
TEST_F(WorkerJailTest, AnOlderLandlockIsEnough) {
  for (int abi = 1; abi <= JailSupport::OfThisKernel().landlock_abi; ++abi) {
    TakenOver jailed(Jail::Mode::kRequired, {.landlock_abi = abi, .has_filters = true});
    for (const char* attack : {"read /etc/passwd", "write OUT", "truncate OUT", "shell", "kill",
                               "signal-through-a-file"}) {
      EXPECT_THAT(jailed.Try(Expand(attack, jailed)), StartsWith("refused: ")) << abi;
      EXPECT_EQ(jailed.OutsideContent(), "as it was");
    }
    EXPECT_THAT(jailed.Try("assemble"), StartsWith("done: ")) << abi;
  }
}

// Where a kernel has only one of the two, that one holds.
TEST_F(WorkerJailTest, LandlockWithoutFiltersStillHoldsFiles) {
  TakenOver jailed(Jail::Mode::kOn,
                   {JailSupport::OfThisKernel().landlock_abi, /*has_filters=*/false});
  EXPECT_THAT(jailed.Try("read /etc/passwd"), StartsWith("refused: "));
  EXPECT_THAT(jailed.Try("make-directory inside"), StartsWith("refused: "));
  EXPECT_THAT(jailed.Try("shell"), StartsWith("refused: "));
  EXPECT_THAT(jailed.Problems(), ElementsAre(HasSubstr("seccomp")));
}

TEST_F(WorkerJailTest, FiltersWithoutLandlockStillHoldSockets) {
  TakenOver jailed(Jail::Mode::kOn, {.landlock_abi = 0, .has_filters = true});
  EXPECT_THAT(jailed.Try("inet-socket"), StartsWith("refused: "));
  EXPECT_THAT(jailed.Try("make-directory inside"), StartsWith("refused: "));
  EXPECT_THAT(jailed.Try("kill"), StartsWith("refused: "));
  EXPECT_THAT(jailed.Problems(), ElementsAre(HasSubstr("Landlock")));
}

// These two run on any kernel.
TEST(WorkerJailFallback, KernelWithoutJailSupportCompilesAndReportsIt) {
  TakenOver unjailed(Jail::Mode::kOn, {});
  const auto compiled = unjailed.Compile(SimpleSource(1));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(unjailed.Problems(), ElementsAre(HasSubstr("Landlock"), HasSubstr("seccomp")));
}

TEST(WorkerJailFallback, RequiredJailRefusesCompilesWhereUnsupported) {
  TakenOver unjailed(Jail::Mode::kRequired, {});
  const absl::Status status = unjailed.Compile(SimpleSource(1)).status();
  // On UNAVAILABLE a client compiles locally.
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("no Landlock"));
}

}  // namespace
}  // namespace kiln
