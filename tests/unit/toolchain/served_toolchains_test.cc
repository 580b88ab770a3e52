#include "daemon/toolchain/served_toolchains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/testing/fake_catalog.h"
#include "tests/testing/no_more_descriptors.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeSeal final : public ToolchainSeal {
 public:
  absl::Status Check() const override {
    ++looks;
    if (unreadable) return Unavailable("no descriptors");
    return broken ? FailedPrecondition("changed") : absl::OkStatus();
  }
  mutable std::atomic<int> looks = 0;
  std::atomic<bool> unreadable = false;
  std::atomic<bool> broken = false;
};

std::shared_ptr<Toolchain> MakeTritonOf(const std::string& version) {
  auto toolchain = MakeTriton();
  toolchain->version = version;
  toolchain->fingerprint = toolchain->listing = Digest::Of(version);
  return toolchain;
}

class ServedToolchainsTest : public testing::Test {
 protected:
  // What lies on the disk of this test.
  void Install(std::vector<std::shared_ptr<const Toolchain>> toolchains) {
    const std::lock_guard lock(mutex_);
    disk_ = std::move(toolchains);
  }
  std::unique_ptr<ServedToolchains> Start(
      const std::string& configured = "",
      std::chrono::milliseconds look_time = std::chrono::hours(1)) {
    return std::make_unique<ServedToolchains>(ServedToolchains::Parts{
        .discover =
            [this](const std::string& selector, const auto& is_cancelled) {
              ++discoveries_;
              if (gate_.valid()) gate_.wait();
              was_cancelled_ = is_cancelled();
              const std::lock_guard lock(mutex_);
              return std::make_shared<const DiscoveredToolchains>(disk_, rejected_, selector);
            },
        .is_outdated = [this] { return outdated_.exchange(false); },
        .serve =
            [this](const DiscoveredToolchains& found) {
              const std::lock_guard lock(mutex_);
              steps_.push_back("serve " + found.Describe().substr(0, 13));
            },
        .forget =
            [this] {
              const std::lock_guard lock(mutex_);
              steps_.push_back("forget");
            },
        .configured_default = configured,
        .chosen_default = directory_.File("default"),
        .look_time = look_time});
  }
  static absl::Status Reload(ServedToolchains& served) {
    std::promise<absl::Status> done;
    served.Reload([&](absl::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  static std::string Chosen(const ServedToolchains& served) {
    const auto found = served.Find("", SourceKind::kTtir, *Target::Parse("cuda:90"));
    return found.ok() ? (*found)->version : std::string(Message(found.status()));
  }

  TempDirectory directory_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Toolchain>> disk_{MakeTritonOf("3.6.0")};
  std::vector<DiscoveredToolchains::Rejected> rejected_;
  std::vector<std::string> steps_;
  std::shared_future<void> gate_;
  std::atomic<int> discoveries_ = 0;
  std::atomic<bool> was_cancelled_ = false;
  std::atomic<bool> outdated_ = false;
};

TEST_F(ServedToolchainsTest, ReloadFindsAToolchainInstalledWhileServing) {
  const auto served = Start();
  EXPECT_EQ(Chosen(*served), "3.6.0");
  Install({MakeTritonOf("3.6.0"), MakeTritonOf("3.9.0")});
  EXPECT_EQ(Chosen(*served), "3.6.0");
  EXPECT_TRUE(Reload(*served).ok());
  EXPECT_EQ(Chosen(*served), "3.9.0");
  // Workers first: nobody is to choose what nobody serves. Then what was chosen before is
  // forgotten.
  EXPECT_THAT(steps_, ElementsAre("serve triton==3.9.0", "forget"));
}

TEST_F(ServedToolchainsTest, ManyWhoAskShareOneLook) {
  const auto served = Start();
  std::promise<void> open;
  gate_ = open.get_future().share();
  std::vector<std::future<absl::Status>> answers;
  for (int i = 0; i < 10; ++i) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    answers.push_back(done->get_future());
    served->Reload([done](absl::Status status) { done->set_value(std::move(status)); });
  }
  open.set_value();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_LE(discoveries_, 3);  // at the start, one under way, one for the others
}

TEST_F(ServedToolchainsTest, AChangeIsCountedOnceAndLookedAt) {
  const auto served = Start();
  const auto old = served->List()[0];
  Install({MakeTritonOf("3.9.0")});
  EXPECT_EQ(served->last_change(), "");
  served->NoteChange(*old, FailedPrecondition("x"));
  served->NoteChange(*old, FailedPrecondition("x"));
  EXPECT_EQ(served->last_change(), old->Name() + ": x");
  EXPECT_TRUE(Reload(*served).ok());
  EXPECT_EQ(served->changes(), 1u);
  EXPECT_EQ(Chosen(*served), "3.9.0");
}

TEST_F(ServedToolchainsTest, AnIdleToolchainThatChangesIsNoticed) {
  auto seal = std::make_shared<FakeSeal>();
  auto sealed = MakeTritonOf("3.6.0");
  sealed->seal = seal;
  Install({sealed});
  const auto served = Start("", std::chrono::milliseconds(1));
  Install({MakeTritonOf("3.9.0")});
  seal->broken = true;
  while (Chosen(*served) != "3.9.0") std::this_thread::yield();
  EXPECT_EQ(served->changes(), 1u);
}

TEST_F(ServedToolchainsTest, UnreadableFilesAreNotTakenForChanged) {
  auto seal = std::make_shared<FakeSeal>();
  seal->unreadable = true;
  auto sealed = MakeTritonOf("3.6.0");
  sealed->seal = seal;
  Install({sealed});
  const auto served = Start("", std::chrono::milliseconds(1));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (seal->looks < 3 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  EXPECT_GE(seal->looks, 3);
  EXPECT_EQ(served->changes(), 0u);
  EXPECT_EQ(served->List().size(), 1u);
}

TEST_F(ServedToolchainsTest, LooksAgainAtAnUnfinishedInstallation) {
  rejected_ = {{"/x", "its files changed while they were read", "/x", /*is_unsettled=*/true}};
  const auto served = Start("", std::chrono::milliseconds(1));
  while (discoveries_ < 2) std::this_thread::yield();
}

TEST_F(ServedToolchainsTest, NoticesANewInstallation) {
  const auto served = Start("", std::chrono::milliseconds(1));
  Install({MakeTritonOf("3.9.0")});
  EXPECT_EQ(Chosen(*served), "3.6.0");
  outdated_ = true;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (Chosen(*served) != "3.9.0" && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Chosen(*served), "3.9.0");
}

// With what really looks around.
class ServedDirectoryTest : public ServedToolchainsTest {
 protected:
  ServedDirectoryTest() {
    for (const char* name : {"first", "second", "cache"}) {
      std::filesystem::create_directory(directory_.File(name));
    }
    options_.search_path = {directory_.File("first"), directory_.File("second")};
    options_.cache_directory = directory_.File("cache");
    options_.work_directory = directory_.path();
    options_.worker_script = directory_.File("worker.py");
    WriteFileOrDie(options_.worker_script, "print()");
  }
  std::unique_ptr<ServedToolchains> StartReal(std::chrono::milliseconds look_time) {
    return std::make_unique<ServedToolchains>(ServedToolchains::Parts{
        .discover =
            [this](const std::string& selector, const auto&) {
              DiscoveryOptions options = options_;
              options.default_selector = selector;
              return DiscoveredToolchains::Discover(options, OsFilesystem());
            },
        .serve = [](const DiscoveredToolchains&) {},
        .forget = [] {},
        .configured_default = "",
        .chosen_default = directory_.File("default"),
        .look_time = look_time});
  }
  static std::ptrdiff_t FilesIn(const std::string& directory) {
    return std::distance(std::filesystem::directory_iterator(directory), {});
  }
  static size_t Unsettled(const ServedToolchains& served) {
    size_t count = 0;
    for (const auto& each : served.Current()->rejected()) count += each.is_unsettled ? 1 : 0;
    return count;
  }

  DiscoveryOptions options_;
};

TEST_F(ServedDirectoryTest, LackOfDescriptorsKeepsToolchains) {
  const FakeToolchain second(directory_.File("second/a"), "3.6.0");
  const FakeToolchain first(directory_.File("first/b"), "3.6.0");
  first.Write("patch.py", "another");
  const auto served = StartReal(std::chrono::hours(1));
  ASSERT_TRUE(served->SetDefault("triton==3.6.0").ok());
  const auto before = served->List();
  ASSERT_EQ(before.size(), 2u);
  const auto remembered = FilesIn(options_.cache_directory);
  {
    const NoMoreDescriptors none;
    EXPECT_TRUE(Reload(*served).ok());
  }
  EXPECT_EQ(served->List(), before);
  EXPECT_EQ(served->Current()->default_selector(), "triton==3.6.0");
  EXPECT_EQ(Unsettled(*served), 2u);
  EXPECT_EQ(FilesIn(options_.cache_directory), remembered);
  EXPECT_TRUE(Reload(*served).ok());
  EXPECT_EQ(served->List().size(), 2u);
  EXPECT_EQ(Unsettled(*served), 0u);
}

TEST_F(ServedDirectoryTest, FindsSoonAToolchainThatWasUnreadableAtTheStart) {
  const FakeToolchain toolchain(directory_.File("first/a"));
  std::unique_ptr<ServedToolchains> served;
  {
    const NoMoreDescriptors none;
    served = StartReal(std::chrono::milliseconds(10));
  }
  while (served->List().empty()) std::this_thread::yield();
}

TEST_F(ServedDirectoryTest, KeepingDropsAToolchainThatChanged) {
  const FakeToolchain same(directory_.File("first/a"), "3.6.0");
  const FakeToolchain changed(directory_.File("first/b"), "3.9.0");
  const auto served = StartReal(std::chrono::hours(1));
  ASSERT_EQ(served->List().size(), 2u);
  changed.Write("knobs.py", "other");
  const auto found = DiscoveredToolchains(
      {}, {{directory_.File("first"), "x", directory_.File("first"), /*is_unsettled=*/true}}, "");
  EXPECT_EQ(found.Keeping(*served->Current())->Describe().substr(0, 13), "triton==3.6.0");
  EXPECT_EQ(found.Keeping(*served->Current())->List().size(), 1u);
}

TEST_F(ServedToolchainsTest, AChosenDefaultOutlivesTheProcess) {
  Install({MakeTritonOf("3.6.0"), MakeTritonOf("3.9.0")});
  {
    const auto served = Start();
    EXPECT_EQ(Chosen(*served), "3.9.0");
    EXPECT_TRUE(served->SetDefault("triton==3.6.0").ok());
    EXPECT_EQ(Chosen(*served), "3.6.0");
    EXPECT_EQ(steps_.back(), "forget");
    EXPECT_TRUE(Reload(*served).ok());
    EXPECT_EQ(Chosen(*served), "3.6.0");
  }
  const auto again = Start();
  EXPECT_EQ(Chosen(*again), "3.6.0");
  EXPECT_TRUE(again->SetDefault("").ok());
  EXPECT_EQ(Chosen(*again), "3.9.0");
  EXPECT_EQ(Chosen(*Start()), "3.9.0");
}

TEST_F(ServedToolchainsTest, RefusesAMissingToolchainAsTheDefault) {
  const auto served = Start();
  EXPECT_EQ(served->SetDefault("triton==9.9.9").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(served->SetDefault("newest").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Chosen(*served), "3.6.0");
  EXPECT_EQ(Chosen(*Start()), "3.6.0");
}

TEST_F(ServedToolchainsTest, TheConfigurationWins) {
  Install({MakeTritonOf("3.6.0"), MakeTritonOf("3.9.0")});
  EXPECT_TRUE(Start()->SetDefault("triton==3.9.0").ok());
  const auto served = Start("triton==3.6.0");
  EXPECT_EQ(Chosen(*served), "3.6.0");
  const absl::Status refused = served->SetDefault("triton==3.9.0");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(refused)),
              AllOf(HasSubstr("triton==3.6.0"), HasSubstr("toolchain.default")));
}

TEST_F(ServedToolchainsTest, AChoiceThatCouldNotBeReadIsReadAgainSoon) {
  Install({MakeTritonOf("3.6.0"), MakeTritonOf("3.9.0")});
  EXPECT_TRUE(Start()->SetDefault("triton==3.6.0").ok());
  const std::string file = directory_.File("default");
  std::filesystem::rename(file, directory_.File("chosen"));
  std::filesystem::create_symlink(file, file);  // which cannot be read
  const auto served = Start("", std::chrono::milliseconds(10));
  EXPECT_EQ(Chosen(*served), "3.9.0");
  std::filesystem::rename(directory_.File("chosen"), file);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (Chosen(*served) != "3.6.0" && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Chosen(*served), "3.6.0");
}

TEST_F(ServedToolchainsTest, ADamagedChoiceIsNone) {
  WriteFileOrDie(directory_.File("default"), "no selector at all");
  EXPECT_EQ(Chosen(*Start()), "3.6.0");
}

TEST_F(ServedToolchainsTest, StoppingAnswersWaitingReloads) {
  const auto served = Start();
  std::promise<void> open;
  gate_ = open.get_future().share();
  std::promise<absl::Status> done;
  served->Reload([&](absl::Status status) { done.set_value(std::move(status)); });
  while (discoveries_ < 2) std::this_thread::yield();
  served->Refuse();
  // At once, while discovery goes on.
  EXPECT_EQ(done.get_future().get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Reload(*served).code(), absl::StatusCode::kUnavailable);
  open.set_value();
  served->Stop();
  EXPECT_TRUE(was_cancelled_);
  EXPECT_TRUE(steps_.empty());
}

}  // namespace
}  // namespace kiln
