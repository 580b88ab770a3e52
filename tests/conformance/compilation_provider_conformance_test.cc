// The suite over every provider of the chain above a fake compiler, and over the whole chain.
#include "tests/conformance/compilation_provider_conformance.h"

#include "daemon/chain/admission_provider.h"
#include "daemon/chain/auditing_provider.h"
#include "daemon/chain/caching_provider.h"
#include "daemon/chain/checking_provider.h"
#include "daemon/chain/coalescing_provider.h"
#include "daemon/chain/counting_provider.h"
#include "daemon/chain/routing_provider.h"
#include "storage/memory_store.h"
#include "tests/testing/fake_provider.h"
#include "tests/testing/fake_timer.h"
#include "tests/testing/inline_executor.h"

namespace kiln {
namespace {

using std::chrono::seconds;

class PlentyOfMemory final : public MemoryProbe {
 public:
  MemoryState Look() const override { return {}; }
};

// Everything a provider could need, over a fake compiler with a fake clock.
class FakeHarness : public CompilationProviderHarness {
 public:
  using Provider = std::unique_ptr<CompilationProvider>;
  using Wrap = std::function<Provider(FakeHarness&, Provider)>;

  explicit FakeHarness(const Wrap& wrap)
      : provider_(wrap(*this, std::make_unique<BorrowedProvider>(fake_))) {
    fake_.FinishAtOnce();
  }

  CompilationProvider& provider() override { return *provider_; }
  CompileJobPtr NewJob() override { return MakeJob(std::to_string(next_job_++)); }
  void Hold() override { fake_.HoldAll(); }
  void Release() override {
    fake_.FinishAtOnce();
    fake_.FinishAll();
  }
  SteadyTime NearDeadline() override { return clock_.Now() + seconds(5); }
  void PassDeadline() override { timer_.Advance(seconds(6)); }

  Provider Coalescing(Provider next) {
    return std::make_unique<CoalescingProvider>(std::move(next), clock_, timer_);
  }
  Provider Caching(Provider next) {
    return std::make_unique<CachingProvider>(std::move(next), store_.index(), store_.blobs(),
                                             negatives_, clock_, executor_);
  }
  Provider Admission(Provider next) {
    return std::make_unique<AdmissionProvider>(std::move(next), AdmissionLimits(), memory_, clock_,
                                               timer_);
  }
  Provider Auditing(Provider next) {
    CompilationProvider& compiler = *next;
    return std::make_unique<AuditingProvider>(
        Caching(std::move(next)), 1,
        AuditingProvider::Parts{audit_counters_, compiler, store_.index(), executor_,
                                [] { return true; }, clock_, timer_});
  }
  Provider Checking(Provider next) {
    return std::make_unique<CheckingProvider>(MakeJob("")->toolchain, std::move(next),
                                              [](const Toolchain&, const absl::Status&) {});
  }
  Provider Routing(Provider next) {
    std::vector<Route> routes;
    routes.push_back({MakeJob("")->toolchain, std::move(next)});
    return std::make_unique<RoutingProvider>(std::move(routes));
  }
  Provider Counting(Provider next) {
    return std::make_unique<CountingProvider>(std::move(next), asks_);
  }

 private:
  FakeClock clock_;
  RecentAsks asks_{clock_};
  FakeTimer timer_{clock_};
  PlentyOfMemory memory_;
  MemoryStore store_{uint64_t{1} << 30, clock_};
  InlineExecutor executor_;
  AuditCounters audit_counters_;
  FakeProvider fake_{&timer_};
  NegativeCache negatives_{clock_, std::chrono::minutes(1)};
  int next_job_ = 0;
  Provider provider_;
};

HarnessFactory Factory(std::string name, const FakeHarness::Wrap& wrap) {
  return {std::move(name), [wrap] { return std::make_unique<FakeHarness>(wrap); }};
}

using Provider = FakeHarness::Provider;

INSTANTIATE_TEST_SUITE_P(
    Chain, CompilationProviderConformance,
    testing::Values(
        Factory("Leaf", [](FakeHarness&, Provider next) { return next; }),
        Factory("Coalescing",
                [](FakeHarness& h, Provider next) { return h.Coalescing(std::move(next)); }),
        Factory("Caching",
                [](FakeHarness& h, Provider next) { return h.Caching(std::move(next)); }),
        Factory("Admission",
                [](FakeHarness& h, Provider next) { return h.Admission(std::move(next)); }),
        Factory("Auditing",
                [](FakeHarness& h, Provider next) { return h.Auditing(std::move(next)); }),
        Factory("Checking",
                [](FakeHarness& h, Provider next) { return h.Checking(std::move(next)); }),
        Factory("Routing",
                [](FakeHarness& h, Provider next) { return h.Routing(std::move(next)); }),
        Factory("Counting",
                [](FakeHarness& h, Provider next) { return h.Counting(std::move(next)); }),
        Factory("WholeChain",
                [](FakeHarness& h, Provider next) {
                  return h.Counting(
                      h.Coalescing(h.Caching(h.Admission(h.Routing(h.Checking(std::move(next)))))));
                })),
    HarnessName());

TEST(WholeChain, PrintsItsComposition) {
  FakeHarness harness([](FakeHarness& h, Provider next) {
    return h.Coalescing(h.Caching(h.Admission(h.Routing(std::move(next)))));
  });
  EXPECT_EQ(harness.provider().Describe(), "coalescing(caching(admission(routing(fake))))");
}

}  // namespace
}  // namespace kiln
