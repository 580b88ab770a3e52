#include "daemon/toolchain/found_toolchain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"
#include "tests/unit/toolchain/fake_toolchain.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FoundTritonTest : public testing::Test {
 protected:
  std::vector<std::string> Paths(const std::vector<std::string>& directories) {
    std::vector<std::string> paths;
    for (const auto& found : FindTritons(directories)) paths.push_back(found.path);
    return paths;
  }
  static std::string ProblemIn(const std::string& directory) {
    const auto found = FindTritons({directory});
    return found.size() == 1 ? std::string(Message(found[0].problem)) : "not one toolchain";
  }
  std::string Problem() const { return ProblemIn(directory_.path()); }
  FoundToolchain Only() {
    const auto found = FindTritons({directory_.path()});
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? FoundToolchain() : found[0];
  }

  TempDirectory directory_;
};

TEST_F(FoundTritonTest, KnowsWhereEverythingIs) {
  const FakeToolchain toolchain(directory_.File("triton-3.6.0"), "3.6.0", "3.12");
  const FoundToolchain found = Only();
  EXPECT_EQ(found.path, toolchain.path());
  EXPECT_EQ(found.interpreter, toolchain.path() + "/bin/python");
  EXPECT_EQ(found.package, toolchain.path() + "/lib/python3.12/site-packages/triton");
  EXPECT_EQ(found.python, "3.12");
  EXPECT_EQ(found.version, "3.6.0");
  EXPECT_TRUE(found.problem.ok());
}

TEST_F(FoundTritonTest, DirectoriesInTheirOrderAndWithinThemByName) {
  fs::create_directories(directory_.File("one"));
  fs::create_directories(directory_.File("two"));
  const FakeToolchain c(directory_.File("two/c"));
  const FakeToolchain b(directory_.File("one/b"));
  const FakeToolchain a(directory_.File("one/a"));
  EXPECT_THAT(Paths({directory_.File("two"), directory_.File("one")}),
              ElementsAre(c.path(), a.path(), b.path()));
}

TEST_F(FoundTritonTest, AConfiguredDirectoryMayBeOneItself) {
  const FakeToolchain toolchain(directory_.File("x"));
  EXPECT_THAT(Paths({toolchain.path()}), ElementsAre(toolchain.path()));
}

TEST_F(FoundTritonTest, CountsADirectoryReachedTwiceOnce) {
  const FakeToolchain toolchain(directory_.File("a"));
  fs::create_directory_symlink(toolchain.path(), directory_.File("latest"));
  EXPECT_THAT(Paths({directory_.path(), directory_.path() + "/", toolchain.path()}),
              ElementsAre(toolchain.path()));
}

TEST_F(FoundTritonTest, LinksAreFollowed) {
  fs::create_directories(directory_.File("real"));
  const FakeToolchain toolchain(directory_.File("real/a"));
  fs::create_directory_symlink(directory_.File("real"), directory_.File("link"));
  EXPECT_THAT(Paths({directory_.File("link")}), ElementsAre(directory_.File("link/a")));
}

TEST_F(FoundTritonTest, SkipsEverythingThatIsNotATriton) {
  fs::create_directories(directory_.File("empty"));
  fs::create_directories(directory_.File("venv/lib/python3.11/site-packages"));
  fs::create_directories(directory_.File("namespace/lib/python3.11/site-packages/triton"));
  WriteFileOrDie(directory_.File("file"), "");
  fs::create_symlink("nowhere", directory_.File("dangling"));
  const FakeToolchain hidden(directory_.File(".installing-x"));
  const FakeToolchain partial(directory_.File("triton.partial"));
  const FakeToolchain temporary(directory_.File("triton.tmp123"));
  EXPECT_THAT(Paths({directory_.path(), directory_.File("missing"), directory_.File("file"), ""}),
              IsEmpty());
}

TEST_F(FoundTritonTest, APythonThatIsGoneIsAProblem) {
  const FakeToolchain toolchain(directory_.File("a"));
  fs::remove(toolchain.interpreter());
  fs::create_symlink("/nonexistent/python3.11", toolchain.interpreter());
  EXPECT_THAT(Problem(), HasSubstr("bin/python does not run"));
}

TEST_F(FoundTritonTest, APythonThatIsNoProgramIsAProblem) {
  const FakeToolchain toolchain(directory_.File("a"));
  fs::permissions(toolchain.interpreter(), fs::perms::owner_read);
  EXPECT_THAT(Problem(), HasSubstr("bin/python does not run"));
}

TEST_F(FoundTritonTest, TritonForTwoPythonsIsAProblem) {
  const FakeToolchain toolchain(directory_.File("a"), "3.6.0", "3.11");
  const FakeToolchain again(directory_.File("a"), "3.6.0", "3.12");
  EXPECT_THAT(Problem(), HasSubstr("more than one Python"));
}

TEST_F(FoundTritonTest, RejectsAWorldWritableInstallation) {
  const FakeToolchain toolchain(directory_.File("a"));
  fs::permissions(toolchain.path(), fs::perms::all);
  EXPECT_THAT(Problem(), HasSubstr("chmod o-w"));
}

TEST_F(FoundTritonTest, RejectsDecidingFilesWritableByOthers) {
  const FakeToolchain toolchain(directory_.File("a"));
  WriteFileOrDie(toolchain.site_packages() + "/zz.pth", "import os");
  WriteFileOrDie(toolchain.path() + "/pyvenv.cfg", "home = /usr/bin");
  EXPECT_EQ(Problem(), "");
  for (const std::string& path :
       {directory_.path(), toolchain.path(), toolchain.path() + "/bin", toolchain.interpreter(),
        toolchain.path() + "/pyvenv.cfg", toolchain.path() + "/lib",
        toolchain.path() + "/lib/python3.11", toolchain.site_packages(),
        toolchain.site_packages() + "/zz.pth",
        toolchain.site_packages() + "/triton-3.6.0.dist-info", toolchain.package()}) {
    const fs::perms before = fs::status(path).permissions();
    fs::permissions(path, fs::perms(0777));
    EXPECT_THAT(Problem(), HasSubstr(path + " may be written to by everyone")) << path;
    EXPECT_THAT(Problem(), HasSubstr(", mode 0777")) << path;
    fs::permissions(path, before);
  }
  EXPECT_EQ(Problem(), "");
}

TEST_F(FoundTritonTest, RejectsALinkIntoADirectoryThatOthersMayWriteTo) {
  fs::create_directories(directory_.File("open/store"));
  fs::create_directories(directory_.File("searched"));
  const FakeToolchain toolchain(directory_.File("open/store/a"));
  fs::create_directory_symlink(toolchain.path(), directory_.File("searched/a"));
  const auto problem = [&] { return ProblemIn(directory_.File("searched")); };
  EXPECT_EQ(problem(), "");
  fs::permissions(directory_.File("open/store"), fs::perms(0777));
  EXPECT_THAT(problem(), HasSubstr("/open/store may be written to by everyone"));
}

TEST_F(FoundTritonTest, RejectsALinkBeneathADirectoryThatOthersMayWriteTo) {
  fs::create_directories(directory_.File("open/venvs"));
  fs::create_directories(directory_.File("searched"));
  const FakeToolchain toolchain(directory_.File("open/venvs/a"));
  fs::create_directory_symlink(toolchain.path(), directory_.File("searched/a"));
  const auto problem = [&] { return ProblemIn(directory_.File("searched")); };
  EXPECT_EQ(problem(), "");
  fs::permissions(directory_.File("open"), fs::perms(0777));
  EXPECT_THAT(problem(), HasSubstr("/open may be written to by everyone"));
  // With the sticky bit, nobody takes away what is another's.
  fs::permissions(directory_.File("open"), fs::perms(01777));
  EXPECT_EQ(problem(), "");
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(::chown(directory_.File("open/venvs").c_str(), 1'234'567, 0), 0);
  EXPECT_THAT(problem(), HasSubstr("/open/venvs belongs to user 1234567"));
}

TEST_F(FoundTritonTest, AToolchainThatATrustedDirectoryLeadsToCounts) {
  fs::create_directories(directory_.File("open"));
  fs::create_directories(directory_.File("searched"));
  const FakeToolchain toolchain(directory_.File("real/t"));
  fs::create_directory_symlink("../real/t", directory_.File("open/t"));
  fs::create_directory_symlink("../real/t", directory_.File("searched/t"));
  fs::permissions(directory_.File("open"), fs::perms(0777));
  EXPECT_THAT(ProblemIn(directory_.File("open")), HasSubstr("/open may be written to"));
  for (const auto& directories :
       {std::vector{directory_.File("open"), directory_.File("searched")},
        std::vector{directory_.File("searched"), directory_.File("open")}}) {
    const auto found = FindTritons(directories);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].path, directory_.File("searched/t"));
    EXPECT_TRUE(found[0].problem.ok()) << found[0].problem;
  }
}

TEST_F(FoundTritonTest, ALinkRoundInACircleLeadsNowhere) {
  const FakeToolchain toolchain(directory_.File("a"));
  fs::create_symlink("b.pth", toolchain.site_packages() + "/c.pth");
  fs::create_symlink("c.pth", toolchain.site_packages() + "/b.pth");
  EXPECT_EQ(Problem(), "");
}

TEST_F(FoundTritonTest, IgnoresPermissionsAboveTheSearchedDirectory) {
  fs::create_directories(directory_.File("open/searched"));
  const FakeToolchain toolchain(directory_.File("open/searched/a"));
  fs::permissions(directory_.File("open"), fs::perms(0777));
  EXPECT_EQ(ProblemIn(directory_.File("open/searched/")), "");
}

TEST_F(FoundTritonTest, TheVersionIsThatOfTheDistributionWithTritonInIt) {
  const FakeToolchain toolchain(directory_.File("a"));
  const std::string info = toolchain.site_packages() + "/triton-3.6.0.dist-info";
  fs::rename(info, toolchain.site_packages() + "/pytorch_triton-3.6.0+git9844da95.dist-info");
  fs::create_directories(toolchain.site_packages() + "/aaa_triton_kernels-1.0.dist-info");
  WriteFileOrDie(toolchain.site_packages() + "/aaa_triton_kernels-1.0.dist-info/RECORD",
                 "triton_kernels/__init__.py,,\n");
  EXPECT_EQ(Only().version, "3.6.0+git9844da95");
}

TEST_F(FoundTritonTest, TheVersionMayBeUnknown) {
  const FakeToolchain toolchain(directory_.File("a"));
  fs::remove_all(toolchain.site_packages() + "/triton-3.6.0.dist-info");
  EXPECT_EQ(Only().version, "");
  EXPECT_EQ(Problem(), "");
}

}  // namespace
}  // namespace kiln
