#include "daemon/toolchain/toolchain_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include "tests/testing/temp_directory.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kDeciding[] = {
    "__init__.py",
    "compiler/compiler.py",
    "backends/amd/compiler.py",
    "_C/libtriton.so",
    "_C/libtriton.so.3",
    "_C/libtriton.cpython-311-x86_64-linux-gnu.so",
    "backends/amd/lib/libtriton_amd_codegen.so",
    "backends/nvidia/bin/ptxas",
    "backends/nvidia/bin/ptxas-blackwell",
    "backends/amd/bin/ld.lld",
    "backends/nvidia/lib/libdevice.10.bc",
    "backends/amd/lib/ockl.bc",
    // Nobody knows yet what it is, so it counts.
    "backends/nvidia/lib/new.table",
    "sourceless.pyc",
};
constexpr const char* kIdle[] = {
    "__pycache__/knobs.cpython-311.pyc",
    "compiler/__pycache__/compiler.cpython-311.pyc",
    "backends/nvidia/include/cuda.h",
    "backends/nvidia/include/crt/nvfunctional",
    "backends/amd/include/hip/hip_runtime.h",
    "backends/nvidia/bin/cuobjdump",
    "backends/nvidia/bin/nvdisasm",
    "backends/nvidia/lib/cupti/libcupti.so",
    "backends/nvidia/lib/cupti/libcupti.so.12",
    "backends/nvidia/lib/libstatic.a",
    "_C/libproton.so",
    "profiler/profile.py",
    "FileCheck",
};

class ToolchainFilesTest : public testing::Test {
 protected:
  ToolchainFilesTest() : toolchain_(directory_.File("triton-3.6.0")) {}

  static Digest FingerprintOf(const FoundToolchain& toolchain) {
    const auto files = ListFiles(toolchain, {});
    EXPECT_TRUE(files.ok()) << files.status();
    const auto fingerprint = Fingerprint(toolchain, files->files);
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status();
    return fingerprint.ok() ? fingerprint->digest : Digest();
  }
  static Digest ListingOf(const FakeToolchain& toolchain) {
    return ListingDigest(toolchain.AsFound(), ListFiles(toolchain.AsFound(), {})->files);
  }
  static FoundToolchain Ptxas(const std::string& path) { return {std::string(kPtxas), path, path}; }
  Digest FingerprintNow() { return FingerprintOf(toolchain_.AsFound()); }

  TempDirectory directory_;
  FakeToolchain toolchain_;
};

TEST_F(ToolchainFilesTest, EveryDecidingFileChangesTheFingerprint) {
  for (const char* path : kDeciding) {
    EXPECT_TRUE(DecidesOutput(path)) << path;
    toolchain_.Write(path, "before");
    const Digest before = FingerprintNow();
    toolchain_.Write(path, "behind");
    EXPECT_NE(FingerprintNow(), before) << path;
  }
}

TEST_F(ToolchainFilesTest, OtherFilesDoNotChangeTheFingerprint) {
  const Digest before = FingerprintNow();
  for (const char* path : kIdle) {
    EXPECT_FALSE(DecidesOutput(path)) << path;
    toolchain_.Write(path, "anything");
    EXPECT_EQ(FingerprintNow(), before) << path;
  }
}

TEST_F(ToolchainFilesTest, AFileThatComesGoesOrMovesChangesIt) {
  const Digest before = FingerprintNow();
  toolchain_.Write("added.py", "");
  EXPECT_NE(FingerprintNow(), before);
  fs::remove(toolchain_.package() + "/added.py");
  EXPECT_EQ(FingerprintNow(), before);
  fs::rename(toolchain_.package() + "/knobs.py", toolchain_.package() + "/bonks.py");
  EXPECT_NE(FingerprintNow(), before);
}

TEST_F(ToolchainFilesTest, PythonAndTheDistributionAreCovered) {
  FoundToolchain other = toolchain_.AsFound();
  other.python = "3.12";
  EXPECT_NE(FingerprintOf(other), FingerprintNow());
  other = toolchain_.AsFound();
  other.version = "3.6.0+local";
  EXPECT_NE(FingerprintOf(other), FingerprintNow());
}

TEST_F(ToolchainFilesTest, TimesKeepTheFingerprintAndChangeTheListing) {
  const Digest fingerprint = FingerprintNow();
  const Digest listing = ListingOf(toolchain_);
  EXPECT_EQ(ListingOf(toolchain_), listing);
  const timespec times[2] = {{1, 2}, {3, 4}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (toolchain_.package() + "/knobs.py").c_str(), times, 0), 0);
  EXPECT_EQ(FingerprintNow(), fingerprint);
  EXPECT_NE(ListingOf(toolchain_), listing);
}

TEST_F(ToolchainFilesTest, MovingKeepsTheFingerprintAndChangesTheListing) {
  const FakeToolchain elsewhere(directory_.File("elsewhere"));
  EXPECT_EQ(FingerprintOf(elsewhere.AsFound()), FingerprintNow());
  EXPECT_NE(ListingOf(elsewhere), ListingOf(toolchain_));
}

// The text as docs/toolchains.md gives it, written by hand.
TEST_F(ToolchainFilesTest, TritonFingerprintIsTheDigestOfTheDocumentedText) {
  const std::string expected =
      "kiln-toolchain-4\n"
      "python 3.11\n"
      "triton 3.6.0\n" +
      Digest::Of("code").Hex() + "  _C/libtriton.so\n" +
      Digest::Of("__version__ = '3.6.0'\n").Hex() + "  __init__.py\n" +
      Digest::Of("assembler").Hex() + "  backends/nvidia/bin/ptxas\n" + Digest::Of("stages").Hex() +
      "  backends/nvidia/compiler.py\n" + Digest::Of("bitcode").Hex() +
      "  backends/nvidia/lib/libdevice.10.bc\n" + Digest::Of("").Hex() + "  knobs.py\n";
  EXPECT_EQ(FingerprintNow(), Digest::Of(expected));
}

// What is remembered of files ends with the number that the fingerprint begins with.
TEST_F(ToolchainFilesTest, AListingIsForOneWayToCallTriton) {
  const FoundToolchain toolchain = toolchain_.AsFound();
  EXPECT_EQ(ListingDigest(toolchain, std::vector<ToolchainFile>()),
            Digest::Of("kiln-toolchain-4\npython 3.11\ntriton 3.6.0\n" + toolchain.path + "\n"));
}

TEST_F(ToolchainFilesTest, AnUnknownDistributionIsCalledThat) {
  FoundToolchain nameless = toolchain_.AsFound();
  nameless.version = "";
  FoundToolchain unknown = toolchain_.AsFound();
  unknown.version = "unknown";
  EXPECT_EQ(FingerprintOf(nameless), FingerprintOf(unknown));
}

TEST_F(ToolchainFilesTest, LinksStandForWhatTheyLeadTo) {
  const Digest before = FingerprintNow();
  fs::rename(toolchain_.package() + "/backends", directory_.File("backends"));
  fs::create_directory_symlink(directory_.File("backends"), toolchain_.package() + "/backends");
  fs::rename(toolchain_.package() + "/knobs.py", directory_.File("knobs.py"));
  fs::create_symlink(directory_.File("knobs.py"), toolchain_.package() + "/knobs.py");
  fs::create_symlink("nowhere", toolchain_.package() + "/dangling.py");
  EXPECT_EQ(FingerprintNow(), before);
}

TEST_F(ToolchainFilesTest, ALinkToItsOwnParentIsRefused) {
  fs::create_directory_symlink(".", toolchain_.package() + "/loop");
  EXPECT_FALSE(ListFiles(toolchain_.AsFound(), {}).ok());
}

TEST_F(ToolchainFilesTest, ANameThatCouldForgeALineIsRefused) {
  toolchain_.Write("a\nb.py", "");
  EXPECT_THAT(std::string(Message(ListFiles(toolchain_.AsFound(), {}).status())),
              HasSubstr("newline"));
}

TEST_F(ToolchainFilesTest, FilesThatChangeWhileTheyAreReadGiveNoFingerprint) {
  const auto files = ListFiles(toolchain_.AsFound(), {});
  ASSERT_TRUE(files.ok());
  toolchain_.Write("knobs.py", "now it is longer");
  const auto fingerprint = Fingerprint(toolchain_.AsFound(), files->files);
  EXPECT_EQ(fingerprint.status().code(), absl::StatusCode::kUnavailable);
  fs::remove(toolchain_.package() + "/knobs.py");
  EXPECT_FALSE(Fingerprint(toolchain_.AsFound(), files->files).ok());
}

TEST_F(ToolchainFilesTest, APipeInThePlaceOfAFileIsNotWaitedFor) {
  const std::string path = directory_.File("ptxas");
  WriteFileOrDie(path, "program");
  const auto listing = ListFiles(Ptxas(path), {});
  ASSERT_TRUE(listing.ok());
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto fingerprint =
      std::async(std::launch::async, [&] { return Fingerprint(Ptxas(path), listing->files); });
  if (fingerprint.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
    ADD_FAILURE() << "it waits for somebody to write to the pipe";
    WriteFileOrDie(path, "at last");
  }
  EXPECT_TRUE(absl::IsUnavailable(fingerprint.get().status()));
}

TEST_F(ToolchainFilesTest, ADeviceInThePlaceOfAFileIsNotRead) {
  const std::string path = directory_.File("ptxas");
  WriteFileOrDie(path, "");
  const auto listing = ListFiles(Ptxas(path), {});
  ASSERT_TRUE(listing.ok());
  fs::remove(path);
  fs::create_symlink("/dev/null", path);
  EXPECT_TRUE(absl::IsUnavailable(Fingerprint(Ptxas(path), listing->files).status()));
}

TEST_F(ToolchainFilesTest, PtxasFingerprintIsTheDigestOfTheFile) {
  WriteFileOrDie(directory_.File("ptxas"), "program");
  EXPECT_EQ(FingerprintOf(Ptxas(directory_.File("ptxas"))), Digest::Of("program"));
}

// The text as docs/toolchains.md gives it, written by hand. The second include directory lies in
// the first, as cccl does.
TEST_F(ToolchainFilesTest, NvrtcFingerprintIsTheDigestOfTheDocumentedText) {
  FoundToolchain nvrtc{std::string(kNvrtc), directory_.File("libnvrtc.so.12"), directory_.path()};
  nvrtc.libraries = {directory_.File("libnvrtc-builtins.so.12.9")};
  nvrtc.includes = {directory_.File("include"), directory_.File("include/cccl")};
  fs::create_directories(nvrtc.includes[1]);
  WriteFileOrDie(nvrtc.path, "library");
  WriteFileOrDie(nvrtc.libraries[0], "built-ins");
  WriteFileOrDie(nvrtc.includes[0] + "/z.h", "header");
  WriteFileOrDie(nvrtc.includes[1] + "/a.h", "inner");
  const std::string expected =
      "kiln-toolchain-1\nnvrtc\ncall 3\ninclude-0 " + nvrtc.includes[0] + "\ninclude-1 " +
      nvrtc.includes[1] + "\n" + Digest::Of("inner").Hex() + "  include-0/cccl/a.h\n" +
      Digest::Of("header").Hex() + "  include-0/z.h\n" + Digest::Of("inner").Hex() +
      "  include-1/a.h\n" + Digest::Of("built-ins").Hex() + "  libnvrtc-builtins.so.12.9\n" +
      Digest::Of("library").Hex() + "  libnvrtc.so.12\n";
  EXPECT_EQ(FingerprintOf(nvrtc), Digest::Of(expected));
}

TEST_F(ToolchainFilesTest, RejectsFilesWritableByOthers) {
  toolchain_.Write("compiler/__pycache__/compiler.cpython-311.pyc", "bytecode");
  toolchain_.Write("compiler/compiler.py", "source");
  const auto listed = [&] { return ListFiles(toolchain_.AsFound(), {}).status(); };
  for (const char* name :
       {"", "/knobs.py", "/backends/nvidia/bin/ptxas", "/compiler", "/compiler/__pycache__",
        "/compiler/__pycache__/compiler.cpython-311.pyc"}) {
    const std::string path = toolchain_.package() + name;
    const fs::perms before = fs::status(path).permissions();
    fs::permissions(path, fs::perms(0777));
    EXPECT_EQ(listed().code(), absl::StatusCode::kFailedPrecondition) << path;
    EXPECT_THAT(std::string(Message(listed())), HasSubstr(path + " may be written to by everyone"));
    fs::permissions(path, before);
  }
}

TEST_F(ToolchainFilesTest, APackageThatIsNotThereIsAnError) {
  FoundToolchain missing = toolchain_.AsFound();
  missing.package = directory_.File("missing");
  EXPECT_FALSE(ListFiles(missing, {}).ok());
}

}  // namespace
}  // namespace kiln
