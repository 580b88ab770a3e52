// A PTX that is small, correct, and takes ptxas minutes and gigabytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <future>

#include "daemon/chain/pooled_provider.h"
#include "tests/testing/fake_compiler.h"
#include "tests/testing/real_toolchains.h"
#include "tests/testing/temp_directory.h"

namespace kiln {
namespace {

// `count` blocks that each may go on at any other: 15,000 of them are 1.4 MB, and ptxas 12.8 needs
// more than 100 s for them.
std::string Branches(uint32_t count) {
  std::string text = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry branches(.param .u64 p, .param .u32 n)
{
.reg .pred %p<2>;
.reg .b32 %r<4>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1,[p];
ld.param.u32 %r1,[n];
mov.u32 %r2,0;
)";
  uint32_t random = 12345;
  for (uint32_t i = 0; i < count; ++i) {
    random = (random * 1103515245u + 12345u) & 0x7fffffffu;
    text += fmt::format(
        "L{}: add.u32 %r2,%r2,{}; xor.b32 %r1,%r1,%r2; setp.gt.u32 %p1,%r1,{}; @%p1 bra L{};\n", i,
        random & 1023, random, random % count);
  }
  return text + "st.global.u32 [%rd1],%r2;\nret;\n}\n";
}

std::future<absl::StatusOr<CompileResult>> Submit(PooledProvider& provider,
                                                  const std::string& source,
                                                  CallContext context = {}) {
  auto job = std::make_shared<CompileJob>();
  job->request.source = {SourceKind::kPtx, source, "branches"};
  job->request.target = {"cuda", "90", 0};
  job->toolchain = RealPtxas();
  auto promise = std::make_shared<std::promise<absl::StatusOr<CompileResult>>>();
  provider.Compile(std::move(context), job,
                   [promise](auto result) { promise->set_value(std::move(result)); });
  return promise->get_future();
}

size_t LivingAssemblers() {
  const std::vector<pid_t> living = LivingDescendants();
  return static_cast<size_t>(std::count_if(living.begin(), living.end(), [](pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/comm", pid));
    std::string name;
    std::getline(file, name);
    return name == "ptxas";
  }));
}

TEST(AdversarialPtx, EndsAtItsDeadlineWhileOthersAreServed) {
  const TempDirectory directory;
  WorkerPoolOptions options;
  options.slots = 2;
  options.work_directory = directory.File("work");
  options.zygote = NativeZygoteCommand(*RealPtxas(), NativeWorker(), directory.File("zygote"),
                                       InstalledJemalloc());
  options.zygote.jail = std::make_shared<Jail>(Jail::Mode::kOn, JailSupport::OfThisKernel());
  PooledProvider provider(RealPtxas(), options, SystemClock());
  ASSERT_TRUE(Submit(provider, Branches(1)).get().ok());

  CallContext context;
  context.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  auto adversary = Submit(provider, Branches(15'000), context);
  for (uint32_t i = 2; i < 6; ++i) {
    const auto compiled = Submit(provider, Branches(i)).get();
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(compiled->failure(), nullptr);
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(adversary.get().status()));
  // What is left of it dies with its worker, which this compile has had replaced.
  EXPECT_TRUE(Submit(provider, Branches(6)).get().ok());
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (LivingAssemblers() > 0 && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(LivingAssemblers(), 0u);
}

}  // namespace
}  // namespace kiln
