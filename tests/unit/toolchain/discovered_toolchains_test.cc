#include "daemon/toolchain/discovered_toolchains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>

#include "tests/testing/temp_directory.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DiscoveredToolchainsTest : public testing::Test {
 protected:
  DiscoveredToolchainsTest() {
    options_.search_path = {directory_.File("toolchains")};
    options_.cache_directory = directory_.File("cache");
    options_.work_directory = directory_.path();
    options_.worker_script = directory_.File("worker.py");
    fs::create_directory(directory_.File("toolchains"));
    WriteFileOrDie(options_.worker_script, "print()");
  }

  FakeToolchain Install(const std::string& name, const std::string& version = "3.6.0") {
    return FakeToolchain(directory_.File("toolchains/" + name), version);
  }
  std::unique_ptr<DiscoveredToolchains> Discover() {
    return DiscoveredToolchains::Discover(options_, OsFilesystem());
  }
  static std::vector<std::string> Names(const DiscoveredToolchains& catalog) {
    std::vector<std::string> names;
    for (const auto& each : catalog.List()) names.push_back(each->Name());
    return names;
  }
  static absl::StatusOr<std::shared_ptr<const Toolchain>> Find(
      const DiscoveredToolchains& catalog, const std::string& selector,
      const std::string& target = "cuda:90", SourceKind kind = SourceKind::kTtir) {
    return catalog.Find(selector, kind, *Target::Parse(target));
  }
  // Why there is none.
  static std::string Reason(const DiscoveredToolchains& catalog, const std::string& selector,
                            const std::string& target = "cuda:90",
                            SourceKind kind = SourceKind::kTtir) {
    const auto found = Find(catalog, selector, target, kind);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_LT(Message(found.status()).size(), limits::kStatusMessageBytesMax);
    return std::string(Message(found.status()));
  }

  TempDirectory directory_;
  DiscoveryOptions options_;
};

TEST_F(DiscoveredToolchainsTest, FindsAndDescribesAToolchain) {
  const FakeToolchain installed = Install("triton-3.6.0");
  const auto catalog = Discover();
  ASSERT_THAT(Names(*catalog), ElementsAre("triton==3.6.0"));
  const Toolchain& toolchain = *catalog->List()[0];
  EXPECT_EQ(toolchain.directory, installed.path());
  EXPECT_EQ(toolchain.interpreter, installed.interpreter());
  EXPECT_FALSE(toolchain.fingerprint.IsZero());
  EXPECT_NE(toolchain.FindBackend("hip"), nullptr);
  EXPECT_EQ(catalog->Describe(), "triton==3.6.0 (" + toolchain.fingerprint.ShortHex() + ")");
  EXPECT_THAT(catalog->rejected(), IsEmpty());
}

TEST_F(DiscoveredToolchainsTest, FindsToolchainsOfATrustedOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  constexpr uid_t kInstaller = 1'234'567;
  const FakeToolchain installed = Install("triton-3.6.0");
  for (const auto& each : std::filesystem::recursive_directory_iterator(installed.path())) {
    ASSERT_EQ(::lchown(each.path().c_str(), kInstaller, kInstaller), 0);
  }
  const auto refused = Discover();
  EXPECT_THAT(Names(*refused), IsEmpty());
  ASSERT_EQ(refused->rejected().size(), 1u);
  EXPECT_THAT(refused->rejected()[0].reason, HasSubstr("belongs to user 1234567"));
  options_.owners.further = {kInstaller};
  EXPECT_THAT(Names(*Discover()), ElementsAre("triton==3.6.0"));
}

TEST_F(DiscoveredToolchainsTest, EmptyCatalogFailsOnlyRequests) {
  options_.search_path.push_back(directory_.File("missing"));
  const auto catalog = Discover();
  EXPECT_THAT(catalog->List(), IsEmpty());
  EXPECT_EQ(catalog->Describe(), "none");
  EXPECT_THAT(Reason(*catalog, ""), HasSubstr("kiln toolchain add triton==3.6.0 (as root"));
  EXPECT_THAT(Reason(*catalog, "triton==3.6.0"), HasSubstr("kiln toolchain add triton==3.6.0"));
}

TEST_F(DiscoveredToolchainsTest, TheHighestVersionThatFitsIsTheDefault) {
  Install("a", "3.9.0");
  const FakeToolchain newest = Install("b", "3.10.0");
  Install("c", "3.6.0");
  std::string other_hip = Describes("3.10.0");
  newest.Answer(other_hip.replace(other_hip.find("gfx942"), 6, "gfx90a"));
  const auto catalog = Discover();
  EXPECT_THAT(Names(*catalog), ElementsAre("triton==3.10.0", "triton==3.9.0", "triton==3.6.0"));
  EXPECT_EQ((*Find(*catalog, ""))->version, "3.10.0");
  EXPECT_EQ((*Find(*catalog, "", "hip:gfx942"))->version, "3.9.0");
  EXPECT_EQ((*Find(*catalog, "triton==3.6.0"))->version, "3.6.0");
}

TEST_F(DiscoveredToolchainsTest, AConfiguredDefaultWins) {
  Install("a", "3.9.0");
  Install("b", "3.6.0");
  options_.default_selector = "triton==3.6.0";
  const auto catalog = Discover();
  EXPECT_THAT(Names(*catalog), ElementsAre("triton==3.6.0", "triton==3.9.0"));
  EXPECT_EQ((*Find(*catalog, ""))->version, "3.6.0");
  EXPECT_EQ((*Find(*catalog, "triton==3.9.0"))->version, "3.9.0");
}

TEST_F(DiscoveredToolchainsTest, ADefaultThatIsNotHereIsSaidToWhoeverReliesOnIt) {
  Install("a", "3.9.0");
  options_.default_selector = "triton==3.6.0";
  EXPECT_THAT(Reason(*Discover(), ""),
              AllOf(HasSubstr("\"triton==3.6.0\""), HasSubstr("triton==3.9.0 (sha256 ")));
  options_.default_selector = "newest";
  const auto catalog = Discover();
  EXPECT_THAT(Reason(*catalog, ""), HasSubstr("toolchain.default"));
  EXPECT_FALSE(catalog->HasDefault());
  EXPECT_TRUE(Find(*catalog, "triton==3.9.0").ok());
}

TEST_F(DiscoveredToolchainsTest, ADefaultThatIsNotHereKeepsNobodyFromOtherKinds) {
  Install("a", "3.9.0");
  options_.default_selector = "nvrtc==12.9.86";
  const auto catalog = Discover();
  EXPECT_TRUE(Find(*catalog, "").ok());
  EXPECT_THAT(Reason(*catalog, "", "cuda:90", SourceKind::kCudaCxx),
              AllOf(HasSubstr("\"nvrtc==12.9.86\""), HasSubstr("kiln toolchain default --newest")));
  options_.default_selector = "triton==3.6.0";
  EXPECT_THAT(Reason(*Discover(), "", "cuda:90", SourceKind::kCudaCxx),
              HasSubstr("kiln toolchain add nvrtc=="));
}

TEST_F(DiscoveredToolchainsTest, EqualVersionsStandInTheOrderOfTheirDirectories) {
  fs::create_directory(directory_.File("before"));
  Install("a").Write("patch.py", "a");
  Install("b").Write("patch.py", "b");
  const FakeToolchain first(directory_.File("before/z"));
  options_.search_path = {directory_.File("before"), directory_.File("toolchains")};
  const auto catalog = Discover();
  const auto all = catalog->List();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ((*Find(*catalog, "triton==3.6.0"))->directory, first.path());
  EXPECT_EQ((*Find(*catalog, ""))->directory, first.path());
  for (const auto& each : all) {
    EXPECT_EQ(*Find(*catalog, each->fingerprint.Hex()), each);
    EXPECT_EQ(*Find(*catalog, "sha256:" + each->fingerprint.Hex()), each);
  }
}

TEST_F(DiscoveredToolchainsTest, TheBeginningOfAFingerprintNamesOneToolchainOrAllThatItMayMean) {
  std::vector<std::shared_ptr<const Toolchain>> all;
  for (const char* const digit : {"0", "1", "2"}) {
    const FakeToolchain installed = Install(digit);
    Toolchain toolchain = *Discover()->List().at(0);
    const std::string begin = *digit == '2' ? "bbbbbbbb" : "aaaaaaaa";
    toolchain.fingerprint = *Digest::FromHex(begin + std::string(56, *digit));
    all.push_back(std::make_shared<const Toolchain>(toolchain));
  }
  const DiscoveredToolchains catalog(all, {}, "");
  EXPECT_EQ(*Find(catalog, "bbbbbbbb"), all[2]);
  EXPECT_EQ(*Find(catalog, "aaaaaaaa1"), all[1]);
  const absl::Status several = Find(catalog, "aaaaaaaa").status();
  EXPECT_EQ(several.code(), absl::StatusCode::kInvalidArgument);
  for (const auto& each : {all[0], all[1]}) {
    EXPECT_THAT(std::string(Message(several)), HasSubstr(each->fingerprint.Hex()));
  }
  EXPECT_THAT(Reason(catalog, "cccccccc"), HasSubstr("no toolchain here is \"cccccccc\""));
}

TEST_F(DiscoveredToolchainsTest, TheSameBytesTwiceAreOneToolchain) {
  const FakeToolchain first = Install("a");
  const FakeToolchain second = Install("b");
  const auto catalog = Discover();
  ASSERT_EQ(catalog->List().size(), 1u);
  EXPECT_EQ(catalog->List()[0]->directory, first.path());
  EXPECT_EQ(second.TimesAsked(), 0);
}

TEST_F(DiscoveredToolchainsTest, SaysForEachToolchainWhyItDoesNotFit) {
  Install("a", "3.6.0");
  Install("b", "3.9.0");
  const auto catalog = Discover();
  const std::string unknown = Reason(*catalog, "", "cuda:42");
  EXPECT_THAT(unknown, AllOf(HasSubstr("triton==3.6.0 (sha256 "), HasSubstr("triton==3.9.0"),
                             HasSubstr("does not compile for cuda:42; it compiles for 80, 90")));
  EXPECT_THAT(Reason(*catalog, "triton==3.6.0", "cuda:42"), Not(HasSubstr("3.9.0")));
  EXPECT_THAT(Reason(*catalog, "", "metal:1"), HasSubstr("has no backend metal; it has cuda, hip"));
  EXPECT_THAT(Reason(*catalog, "", "cuda:90", SourceKind::kCudaCxx),
              HasSubstr("does not compile cuda sources; it compiles ttir"));
}

TEST_F(DiscoveredToolchainsTest, UnknownNameListsTheAvailableToolchains) {
  Install("a");
  const auto catalog = Discover();
  EXPECT_THAT(Reason(*catalog, "triton==9.9.9"),
              AllOf(HasSubstr("\"triton==9.9.9\""), HasSubstr("triton==3.6.0 (sha256 "),
                    HasSubstr("kiln toolchain add triton==9.9.9")));
  EXPECT_THAT(Reason(*catalog, "nvrtc==13.0.88", "cuda:90", SourceKind::kCudaCxx),
              HasSubstr("kiln toolchain add nvrtc==13.0.88"));
  EXPECT_THAT(Reason(*catalog, "ptxas==99.0.0", "cuda:90", SourceKind::kPtx),
              HasSubstr("kiln toolchain add ptxas --path DIR"));
  for (const char* no_release : {"gcc==12.1.0", "triton==3.6", "triton==3..6", "triton==3.6."}) {
    EXPECT_THAT(Reason(*catalog, no_release), Not(HasSubstr("toolchain add")));
  }
  EXPECT_THAT(Reason(*catalog, "gcc==12"),
              AllOf(HasSubstr("triton==3.6.0"), Not(HasSubstr("toolchain add"))));
  const std::string zeroes(64, '0');
  EXPECT_THAT(Reason(*catalog, zeroes), AllOf(HasSubstr(zeroes), HasSubstr("triton==3.6.0")));
}

TEST_F(DiscoveredToolchainsTest, ANameWithoutAVersionIsToldWhatToWrite) {
  Install("a", "3.6.0");
  Install("b", "3.9.0");
  const auto catalog = Discover();
  const auto told = [&](const std::string& selector) {
    const absl::Status refused = Find(*catalog, selector).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(catalog->CheckDefault(selector), refused);
    return std::string(Message(refused));
  };
  EXPECT_THAT(told("triton"),
              AllOf(HasSubstr("there are triton==3.9.0 (sha256 "),
                    HasSubstr("; triton==3.6.0 (sha256 "), HasSubstr("; write triton==3.9.0")));
  EXPECT_THAT(told("nvrtc"), AllOf(HasSubstr("there are triton==3.9.0 (sha256 "),
                                   HasSubstr("; kiln toolchain add nvrtc==12.9.86 ")));
  EXPECT_THAT(told("gcc"), AllOf(HasSubstr("there are triton==3.9.0 (sha256 "),
                                 Not(HasSubstr("toolchain add")), Not(HasSubstr("write"))));
}

TEST_F(DiscoveredToolchainsTest, KeepsABrokenToolchainWithItsReason) {
  Install("good", "3.6.0");
  Install("broken", "3.9.0").Run("echo 'ImportError: libtriton.so' >&2; exit 1");
  Install("garbage", "3.8.0").Answer("Hello");
  fs::remove(Install("headless", "3.6.1").interpreter());
  const auto catalog = Discover();
  EXPECT_THAT(Names(*catalog), ElementsAre("triton==3.6.0"));
  ASSERT_EQ(catalog->rejected().size(), 3u);
  EXPECT_EQ(catalog->rejected()[0].directory, directory_.File("toolchains/broken"));
  EXPECT_THAT(catalog->rejected()[0].reason, HasSubstr("ImportError: libtriton.so"));
  EXPECT_THAT(catalog->rejected()[1].reason, HasSubstr("description is not valid"));
  EXPECT_THAT(catalog->rejected()[2].reason, HasSubstr("bin/python does not run"));
  EXPECT_THAT(Reason(*catalog, "triton==3.9.0"),
              AllOf(HasSubstr("broken (not usable): "), HasSubstr("ImportError: libtriton.so"),
                    Not(HasSubstr(directory_.path()))));
}

TEST_F(DiscoveredToolchainsTest, GivesUpAToolchainThatHangs) {
  Install("slow").Run("sleep 600");
  options_.describe_time = std::chrono::milliseconds(300);
  const auto catalog = Discover();
  ASSERT_EQ(catalog->rejected().size(), 1u);
  EXPECT_THAT(catalog->rejected()[0].reason, HasSubstr("300 ms"));
}

TEST_F(DiscoveredToolchainsTest, AFailureIsNotRememberedASuccessIs) {
  const FakeToolchain installed = Install("a");
  installed.Run("exit 1");
  EXPECT_THAT(Discover()->List(), IsEmpty());
  installed.Run("");
  EXPECT_EQ(Discover()->List().size(), 1u);
  EXPECT_EQ(Discover()->List().size(), 1u);
  EXPECT_EQ(installed.TimesAsked(), 2);
}

TEST_F(DiscoveredToolchainsTest, IsAskedAgainWhenItsBytesOrTheWorkerChange) {
  const FakeToolchain installed = Install("a");
  const Digest before = Discover()->List().at(0)->fingerprint;
  EXPECT_EQ(Discover()->List().at(0)->fingerprint, before);
  EXPECT_EQ(installed.TimesAsked(), 1);
  WriteFileOrDie(options_.worker_script, "print(2)");
  EXPECT_EQ(Discover()->List().at(0)->fingerprint, before);
  EXPECT_EQ(installed.TimesAsked(), 2);
  installed.Write("knobs.py", "patched");
  EXPECT_NE(Discover()->List().at(0)->fingerprint, before);
  EXPECT_EQ(installed.TimesAsked(), 3);
}

TEST_F(DiscoveredToolchainsTest, IsAskedAgainWhenAModuleOfTheWorkerChanges) {
  const FakeToolchain installed = Install("a");
  Discover();
  fs::create_directory(directory_.File("kiln_triton_worker"));
  WriteFileOrDie(directory_.File("kiln_triton_worker/description.py"), "def describe(): pass");
  Discover();
  Discover();
  EXPECT_EQ(installed.TimesAsked(), 2);
}

TEST_F(DiscoveredToolchainsTest, ADamagedCacheCostsTimeOnly) {
  const FakeToolchain installed = Install("a");
  const Digest before = Discover()->List().at(0)->fingerprint;
  for (const auto& entry : fs::directory_iterator(options_.cache_directory)) {
    WriteFileOrDie(entry.path().string(), "damaged");
  }
  EXPECT_EQ(Discover()->List().at(0)->fingerprint, before);
  EXPECT_EQ(installed.TimesAsked(), 2);
  EXPECT_EQ(Discover()->List().at(0)->fingerprint, before);
  EXPECT_EQ(installed.TimesAsked(), 2);
}

TEST_F(DiscoveredToolchainsTest, CacheForgetsRemovedToolchains) {
  const FakeToolchain installed = Install("a");
  Discover();
  EXPECT_FALSE(fs::is_empty(options_.cache_directory));
  fs::remove_all(installed.path());
  Discover();
  // What it was is compared with those that come after it.
  size_t kept = 0;
  for (const auto& entry : fs::directory_iterator(options_.cache_directory)) {
    EXPECT_EQ(entry.path().extension(), ".files") << entry.path();
    ++kept;
  }
  EXPECT_EQ(kept, 1u);
}

TEST_F(DiscoveredToolchainsTest, WorksWithoutACache) {
  const FakeToolchain installed = Install("a");
  options_.cache_directory = "";
  EXPECT_EQ(Discover()->List().size(), 1u);
  EXPECT_EQ(Discover()->List().size(), 1u);
  EXPECT_EQ(installed.TimesAsked(), 2);
}

TEST_F(DiscoveredToolchainsTest, DoesNotRunATooOldTriton) {
  const FakeToolchain old = Install("old", "3.2.0");
  const auto catalog = Discover();
  EXPECT_EQ(old.TimesAsked(), 0);
  EXPECT_THAT(Reason(*catalog, ""), HasSubstr("Triton before 3.4"));
}

TEST_F(DiscoveredToolchainsTest, AKnownBadBackendIsLeftOutAndItsReasonSaid) {
  Install("a", "3.4.0");
  const auto catalog = Discover();
  EXPECT_EQ(catalog->List().at(0)->FindBackend("hip"), nullptr);
  EXPECT_TRUE(Find(*catalog, "").ok());
  EXPECT_THAT(Reason(*catalog, "", "hip:gfx942"), HasSubstr("ld.lld"));
}

TEST_F(DiscoveredToolchainsTest, AnInterpreterThatImportsAnotherTritonIsRefused) {
  Install("a", "3.6.0").Answer(Describes("3.9.0"));
  std::string other = Describes("3.6.0");
  Install("b", "3.6.0").Answer(other.replace(other.find("triton"), 6, "nortit"));
  const auto catalog = Discover();
  ASSERT_EQ(catalog->rejected().size(), 2u);
  EXPECT_THAT(catalog->rejected()[0].reason, AllOf(HasSubstr("3.6.0"), HasSubstr("3.9.0")));
  EXPECT_THAT(catalog->rejected()[1].reason, HasSubstr("nortit"));
}

TEST_F(DiscoveredToolchainsTest, ALocalPartOfTheVersionIsNoOtherTriton) {
  Install("a", "3.6.0+rocm7").Answer(Describes("3.6.0"));
  EXPECT_THAT(Names(*Discover()), ElementsAre("triton==3.6.0"));
}

TEST_F(DiscoveredToolchainsTest, RejectsAToolchainWithoutTargets) {
  Install("a").Answer(R"({"protocol": 1, "name": "triton", "version": "3.6.0", "assembler": "",
                          "hidden_pointers": 2, "kinds": ["ttir"], "backends": []})");
  const auto catalog = Discover();
  ASSERT_EQ(catalog->rejected().size(), 1u);
  EXPECT_THAT(catalog->rejected()[0].reason, HasSubstr("compiles for no target"));
}

TEST_F(DiscoveredToolchainsTest, MissingWorkerScriptRejectsToolchains) {
  Install("a");
  fs::remove(options_.worker_script);
  const auto catalog = Discover();
  ASSERT_EQ(catalog->rejected().size(), 1u);
  EXPECT_THAT(catalog->rejected()[0].reason, HasSubstr("worker.py"));
}

TEST_F(DiscoveredToolchainsTest, AnotherPythonIsNoticed) {
  const FakeToolchain installed = Install("a");
  const std::string python = directory_.File("python");
  fs::rename(installed.interpreter(), python);
  fs::create_symlink(python, directory_.File("python3"));
  fs::create_symlink(directory_.File("python3"), installed.interpreter());
  // Where Python looks for its library.
  const std::string home = installed.path() + "/pyvenv.cfg";
  const std::string code = ReadFileOrDie(python);
  const std::function<void()> changes[] = {
      [&] { WriteProgram(python, "#!/bin/sh\nexit 1\n"); },
      [&] {
        WriteProgram(directory_.File("another"), "#!/bin/sh\nexit 1\n");
        fs::remove(directory_.File("python3"));
        fs::create_symlink("another", directory_.File("python3"));
      },
      [&] { WriteFileOrDie(home, "home = /x"); },
      [&] { fs::remove(home); },
      [&] { fs::remove(installed.interpreter()); },
  };
  std::shared_ptr<const Toolchain> before;
  for (const auto& change : changes) {
    WriteProgram(python, code);
    const auto catalog = Discover();
    const auto found = catalog->List().at(0);
    EXPECT_TRUE(found->seal->Check().ok()) << found->seal->Check();
    if (before != nullptr) {
      EXPECT_EQ(found->fingerprint, before->fingerprint);
      EXPECT_NE(found->listing, before->listing);
    }
    before = found;
    change();
    EXPECT_TRUE(absl::IsFailedPrecondition(found->seal->Check()));
  }
}

TEST_F(DiscoveredToolchainsTest, PermanentProblemsAreSettled) {
  Install("fails").Run("exit 1");
  Install("silent").Answer("");
  WriteProgram(Install("no-program").interpreter(), "no program");
  WriteProgram(Install("no-shell").interpreter(), "#!/nonexistent/sh");
  const auto catalog = Discover();
  EXPECT_EQ(catalog->rejected().size(), 4u);
  for (const auto& each : catalog->rejected()) EXPECT_FALSE(each.is_unsettled) << each.reason;
}

// Answers as kiln-worker does for an NVRTC.
class DiscoveredNvrtcTest : public DiscoveredToolchainsTest {
 protected:
  DiscoveredNvrtcTest() {
    options_.native_worker = directory_.File("kiln-worker");
    WriteProgram(options_.native_worker,
                 "#!/bin/sh\necho '{\"protocol\": 1, \"name\": \"nvrtc\", \"version\": "
                 "\"13.0.88\", \"assembler\": \"\", \"hidden_pointers\": 0, \"kinds\": [\"cuda\"],"
                 " \"backends\": [{\"backend\": \"cuda\", \"architectures\": [\"90\"],"
                 " \"stages\": [\"ptx\", \"cubin\"], \"options\": {}}]}' >&3\n");
    WriteProgram(toolkit_ + "/lib64/libnvrtc.so.13", "library");
    WriteProgram(header_, "its own");
  }

  const std::string toolkit_ = directory_.File("toolchains/cuda");
  const std::string header_ = toolkit_ + "/include/cuda_fp16.h";
};

TEST_F(DiscoveredNvrtcTest, AChangedHeaderMakesAnotherToolchain) {
  const auto before = Discover();
  ASSERT_THAT(Names(*before), ElementsAre("nvrtc==13.0.88"));
  WriteProgram(header_ + ".new", "another");
  fs::rename(header_ + ".new", header_);
  EXPECT_FALSE(before->List()[0]->seal->Check().ok());
  EXPECT_NE(Discover()->List().at(0)->fingerprint, before->List()[0]->fingerprint);
}

TEST_F(DiscoveredNvrtcTest, OneThatFitsIsNamedToWhoeverNamesAnother) {
  const FakeToolchain triton = Install("a");
  EXPECT_THAT(Reason(*Discover(), "triton==3.6.0", "cuda:90", SourceKind::kCudaCxx),
              AllOf(HasSubstr("does not compile cuda sources; it compiles ttir; nvrtc==13.0.88 "),
                    EndsWith(") fits")));
}

TEST_F(DiscoveredNvrtcTest, EachKindHasADefault) {
  using enum SourceKind;
  Install("a", "3.6.0");
  Install("b", "3.9.0");
  const auto defaults = [this] {
    std::map<std::string, std::vector<SourceKind>> kinds;
    const auto catalog = Discover();
    for (const auto& each : catalog->List()) kinds[each->Name()] = catalog->DefaultKinds(*each);
    return kinds;
  };
  using Kinds = std::vector<SourceKind>;
  using Defaults = std::map<std::string, Kinds>;
  const Defaults newest = {
      {"triton==3.9.0", {kTtir}}, {"triton==3.6.0", {}}, {"nvrtc==13.0.88", {kCudaCxx}}};
  EXPECT_EQ(defaults(), newest);
  options_.default_selector = "nvrtc==13.0.88";
  EXPECT_EQ(defaults(), newest);
  options_.default_selector = "triton==3.6.0";
  EXPECT_EQ(defaults()["triton==3.6.0"], Kinds{kTtir});
  EXPECT_EQ(defaults()["nvrtc==13.0.88"], Kinds{kCudaCxx});
  options_.default_selector = "triton==9.9.9";  // not here: requests without a name fail
  EXPECT_EQ(
      defaults(),
      (Defaults{{"triton==3.9.0", {}}, {"triton==3.6.0", {}}, {"nvrtc==13.0.88", {kCudaCxx}}}));
}

TEST_F(DiscoveredNvrtcTest, RejectsHeadersThatOthersMayWriteTo) {
  for (const std::string& path : {header_, toolkit_ + "/include"}) {
    const fs::perms before = fs::status(path).permissions();
    fs::permissions(path, fs::perms(0777));
    const auto refused = Discover();
    ASSERT_EQ(refused->rejected().size(), 1u);
    EXPECT_THAT(refused->rejected()[0].reason, HasSubstr(path + " may be written to by everyone"));
    fs::permissions(path, before);
  }
  EXPECT_THAT(Names(*Discover()), ElementsAre("nvrtc==13.0.88"));
}

TEST_F(DiscoveredToolchainsTest, MessagesStayShortWithManyToolchains) {
  std::vector<std::shared_ptr<const Toolchain>> many;
  std::vector<DiscoveredToolchains::Rejected> rejected;
  for (int i = 0; i < 200; ++i) {
    auto toolchain = std::make_shared<Toolchain>();
    toolchain->name = "triton";
    toolchain->version = fmt::format("3.{}.0", i + 5);
    toolchain->kinds = {SourceKind::kTtir};
    toolchain->backends.push_back({"cuda", std::vector<std::string>(200, "90"), {"cubin"}, {}, {}});
    many.push_back(toolchain);
    rejected.push_back({"/x/" + std::string(300, 'd'), std::string(5000, '\xff')});
  }
  const DiscoveredToolchains catalog(many, rejected, "");
  EXPECT_THAT(Reason(catalog, "", "cuda:42"), HasSubstr(" more"));
  EXPECT_THAT(Reason(catalog, "triton==9.9.9"), HasSubstr(" more"));
  EXPECT_THAT(Reason(catalog, "", "cuda:" + std::string(1000, '4')), HasSubstr("..."));
}

}  // namespace
}  // namespace kiln
