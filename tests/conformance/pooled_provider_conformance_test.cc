// The suite of all providers over the leaf of the chain, with a real pool of real processes.
#include <chrono>
#include <filesystem>
#include <fstream>

#include "daemon/chain/pooled_provider.h"
#include "tests/conformance/compilation_provider_conformance.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

class PooledHarness final : public CompilationProviderHarness {
 public:
  PooledHarness() {
    WorkerPoolOptions options = FakePoolOptions(directory_.File("work"));
    options.slots = 2;
    provider_ = std::make_unique<PooledProvider>(MakeFakeCompiler(), options, SystemClock());
  }

  CompilationProvider& provider() override { return *provider_; }

  // A compile that waits while `held_` is there.
  CompileJobPtr NewJob() override {
    return MakeFakeJob("await " + held_ + "\n" + std::to_string(next_job_++));
  }

  void Hold() override { std::ofstream(held_) << "held"; }
  void Release() override { std::filesystem::remove(held_); }
  SteadyTime NearDeadline() override { return SystemClock().Now() + std::chrono::milliseconds(50); }
  // It passes by itself; whoever asks for the answer waits for it.
  void PassDeadline() override {}

 private:
  TempDirectory directory_;
  const std::string held_ = directory_.File("held");
  std::unique_ptr<PooledProvider> provider_;
  int next_job_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Leaf, CompilationProviderConformance,
                         testing::Values(HarnessFactory{
                             "Pooled", [] { return std::make_unique<PooledHarness>(); }}),
                         HarnessName());

}  // namespace
}  // namespace kiln
