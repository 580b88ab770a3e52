#include "daemon/toolchain/toolchain_installations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "storage/base/filesystem.h"
#include "tests/testing/temp_directory.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ToolchainInstallationsTest : public testing::Test {
 protected:
  ToolchainInstallationsTest() {
    fs::create_directories(own_);
    WriteFileOrDie(directory_.File("worker.py"), "print(1)");
  }

  ServedToolchains::Found Discover() const {
    DiscoveryOptions options;
    options.search_path = {own_};
    options.work_directory = directory_.path();
    options.worker_script = directory_.File("worker.py");
    return DiscoveredToolchains::Discover(options, OsFilesystem());
  }
  static std::string Reason(const absl::Status& status) { return std::string(Message(status)); }

  const TempDirectory directory_;
  const std::string own_ = directory_.File("own");
  const FakeToolchain triton_{directory_.File("venv")};
  ServedToolchains served_{{.discover = [this](const auto&, const auto&) { return Discover(); },
                            .serve = [](const auto&) {},
                            .forget = [] {},
                            .configured_default = "",
                            .chosen_default = directory_.File("default")}};
  ToolchainInstallations installations_{served_, {own_}, own_};
};

TEST_F(ToolchainInstallationsTest, AddsByALinkAndRemovesOnlyTheLink) {
  const auto added = installations_.Add({"triton", "3.6.0", triton_.path()});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_TRUE(added->is_new);
  EXPECT_EQ(added->toolchain->installation, own_ + "/triton-venv");
  EXPECT_TRUE(fs::is_symlink(own_ + "/triton-venv"));

  const auto again = installations_.Add({"triton", "", triton_.path()});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->is_new);

  const auto removed = installations_.Remove("triton==3.6.0");
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_THAT(removed->names, ElementsAre("triton==3.6.0"));
  EXPECT_TRUE(served_.List().empty());
  EXPECT_TRUE(fs::is_empty(own_));
  EXPECT_TRUE(fs::exists(triton_.interpreter()));
}

TEST_F(ToolchainInstallationsTest, RefusesWhatOthersMayWriteToAndTakesTheLinkAway) {
  fs::permissions(triton_.package(), fs::perms(0777));
  const auto added = installations_.Add({"triton", "", triton_.path()});
  EXPECT_TRUE(absl::IsFailedPrecondition(added.status()));
  EXPECT_THAT(Reason(added.status()), HasSubstr("may be written to by everyone"));
  EXPECT_THAT(Reason(added.status()), HasSubstr("chmod o-w"));
  EXPECT_TRUE(fs::is_empty(own_));
}

TEST_F(ToolchainInstallationsTest, RefusesADirectoryThatLiesBeneathAnOpenOne) {
  fs::create_directory(directory_.File("open"));
  const FakeToolchain other(directory_.File("open/venv"));
  fs::permissions(directory_.File("open"), fs::perms(0777));
  const auto added = installations_.Add({"triton", "", other.path()});
  EXPECT_THAT(Reason(added.status()), HasSubstr("/open may be written to by everyone"));
  EXPECT_TRUE(fs::is_empty(own_));
}

TEST_F(ToolchainInstallationsTest, SaysWhatIsWrongWithAPath) {
  fs::create_directory(directory_.File("empty"));
  for (const auto& [path, said] : {std::pair("missing", "/missing is not there"),
                                   std::pair("worker.py", "/worker.py is no directory"),
                                   std::pair("empty", "there is no triton in ")}) {
    const auto added = installations_.Add({"triton", "", directory_.File(path)});
    EXPECT_TRUE(absl::IsNotFound(added.status())) << path;
    EXPECT_THAT(Reason(added.status()), HasSubstr(said));
  }
  const auto other = installations_.Add({"triton", "3.9.0", triton_.path()});
  EXPECT_THAT(Reason(other.status()), HasSubstr("what it has is triton==3.6.0, and not"));
  EXPECT_TRUE(fs::is_empty(own_));
}

TEST_F(ToolchainInstallationsTest, DeletesAnInstallationByTheBeginningOfItsFingerprint) {
  const FakeToolchain inside(own_ + "/triton-3.6.0");
  served_.Reload([](const absl::Status&) {});
  const auto added = installations_.Add({"triton", "", inside.path()});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_FALSE(installations_.Remove("0123456789ab").ok());
  const std::string digits = added->toolchain->fingerprint.ShortHex();
  EXPECT_TRUE(installations_.Remove("sha256:" + digits).ok());
  EXPECT_TRUE(fs::is_empty(own_));
}

TEST_F(ToolchainInstallationsTest, AsksWhichOfTwoIsMeant) {
  const FakeToolchain one(own_ + "/one");
  const FakeToolchain other(own_ + "/other");
  other.Write("patch.py", "x");
  ASSERT_TRUE(installations_.Add({"triton", "", one.path()}).ok());
  const absl::Status which = installations_.Remove("triton==3.6.0").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(which));
  EXPECT_THAT(Reason(which), HasSubstr("there is more than one triton==3.6.0"));
  const absl::Status without_version = installations_.Remove("triton").status();
  EXPECT_TRUE(absl::IsInvalidArgument(without_version));
  EXPECT_THAT(Reason(without_version), HasSubstr("say which: triton==3.6.0"));
  EXPECT_TRUE(fs::exists(one.path()));
}

}  // namespace
}  // namespace kiln
