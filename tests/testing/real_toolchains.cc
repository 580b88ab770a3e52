#include "tests/testing/real_toolchains.h"

#include <cstdio>
#include <cstdlib>

#include "daemon/process/allocator.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

std::unique_ptr<DiscoveredToolchains> Discover() {
  const char* directory = std::getenv("KILN_TEST_TOOLCHAINS");
  const TempDirectory temporary;
  DiscoveryOptions options;
  options.search_path = {directory == nullptr ? "" : directory};
  options.work_directory = temporary.path();
  // The programs of one build remember for each other what they learn: it takes seconds.
  options.cache_directory = KILN_TEST_DISCOVERED;
  options.worker_script = WorkerScript();
  options.native_worker = NativeWorker();
  auto found = DiscoveredToolchains::Discover(options, OsFilesystem());
  if (!found->List().empty()) return found;
  std::fprintf(
      stderr,
      "This test needs a real Triton toolchain and found none in KILN_TEST_TOOLCHAINS=%s.\n"
      "deploy/quickstart installs one; tests/run sets the variable.\n",
      directory == nullptr ? "(not set)" : directory);
  std::exit(EXIT_FAILURE);
}

}  // namespace

const DiscoveredToolchains& RealToolchains() {
  static const DiscoveredToolchains* const found = Discover().release();
  return *found;
}

std::shared_ptr<const Toolchain> RealTriton() { return RealToolchains().List().front(); }

std::shared_ptr<const Toolchain> RealPtxas() {
  const auto found = RealToolchains().Find("", SourceKind::kPtx, {"cuda", "90", 0});
  if (found.ok()) return *found;
  std::fprintf(stderr, "no ptxas: %s\n", std::string(Message(found.status())).c_str());
  std::exit(EXIT_FAILURE);
}

std::string NativeWorker() { return KILN_NATIVE_WORKER; }

std::string WorkerScript() { return KILN_WORKER_SCRIPT; }

std::string InstalledJemalloc() {
  return FindJemalloc("", [](const auto&, const auto&) { return absl::OkStatus(); });
}

}  // namespace kiln
