#include "daemon/toolchain/worker_digest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

class WorkerDigestTest : public testing::Test {
 protected:
  WorkerDigestTest() {
    std::filesystem::create_directory(directory_.File("kiln_triton_worker"));
    Write("triton_worker.py", "import kiln_triton_worker");
    Write("kiln_triton_worker/b.py", "b");
    Write("kiln_triton_worker/a.py", "a");
  }

  void Write(const std::string& name, const std::string& content) {
    WriteFileOrDie(directory_.File(name), content);
  }
  Digest OfScript() { return *DigestOfWorker(directory_.File("triton_worker.py"), OsFilesystem()); }

  TempDirectory directory_;
};

TEST_F(WorkerDigestTest, EqualsTheDigestOfSha256sumsOutput) {
  EXPECT_EQ(OfScript(),
            Digest::Of(Digest::Of("import kiln_triton_worker").Hex() + "  triton_worker.py\n" +
                       Digest::Of("a").Hex() + "  kiln_triton_worker/a.py\n" +
                       Digest::Of("b").Hex() + "  kiln_triton_worker/b.py\n"));
}

TEST_F(WorkerDigestTest, CoversModulesAndIgnoresOtherFiles) {
  const Digest before = OfScript();
  std::filesystem::create_directory(directory_.File("kiln_triton_worker/__pycache__"));
  Write("kiln_triton_worker/a.py~", "draft");
  Write("another.py", "");
  EXPECT_EQ(OfScript(), before);
  Write("kiln_triton_worker/a.py", "changed");
  EXPECT_NE(OfScript(), before);
}

TEST_F(WorkerDigestTest, AScriptMayStandAlone) {
  std::filesystem::remove_all(directory_.File("kiln_triton_worker"));
  EXPECT_EQ(OfScript(),
            Digest::Of(Digest::Of("import kiln_triton_worker").Hex() + "  triton_worker.py\n"));
}

TEST_F(WorkerDigestTest, UnreadableFileIsAnError) {
  std::filesystem::create_directory(directory_.File("kiln_triton_worker/c.py"));
  EXPECT_FALSE(DigestOfWorker(directory_.File("triton_worker.py"), OsFilesystem()).ok());
  EXPECT_FALSE(DigestOfWorker(directory_.File("missing"), OsFilesystem()).ok());
}

TEST_F(WorkerDigestTest, ANativeWorkerCountsToo) {
  Write("kiln-worker", "native");
  const Digest before = *DigestOfWorker(directory_.File("kiln-worker"), OsFilesystem());
  Write("kiln-worker", "changed");
  EXPECT_NE(*DigestOfWorker(directory_.File("kiln-worker"), OsFilesystem()), before);
}

}  // namespace
}  // namespace kiln
