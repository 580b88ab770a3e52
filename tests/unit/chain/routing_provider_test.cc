#include "daemon/chain/routing_provider.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_provider.h"
#include "tests/testing/result_probe.h"

namespace kiln {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<const Toolchain> MakeToolchain(std::string version) {
  auto toolchain = std::make_shared<Toolchain>();
  toolchain->name = "triton";
  toolchain->version = std::move(version);
  toolchain->fingerprint = Digest::Of(toolchain->version);
  return toolchain;
}

CompileJobPtr MakeJobFor(std::shared_ptr<const Toolchain> toolchain) {
  auto job = std::make_shared<CompileJob>(*MakeJob("a"));
  job->toolchain = std::move(toolchain);
  return job;
}

class RoutingProviderTest : public testing::Test {
 protected:
  RoutingProviderTest() {
    std::vector<Route> routes;
    routes.push_back({old_, std::make_unique<BorrowedProvider>(old_workers_)});
    routes.push_back({new_, std::make_unique<BorrowedProvider>(new_workers_)});
    provider_ = std::make_unique<RoutingProvider>(std::move(routes));
  }

  const std::shared_ptr<const Toolchain> old_ = MakeToolchain("3.5.1");
  const std::shared_ptr<const Toolchain> new_ = MakeToolchain("3.6.0");
  FakeProvider old_workers_;
  FakeProvider new_workers_;
  std::unique_ptr<RoutingProvider> provider_;
};

TEST_F(RoutingProviderTest, GoesByTheFingerprintOfTheToolchain) {
  ResultProbe probe;
  provider_->Compile(CallContext(), MakeJobFor(MakeToolchain("3.6.0")), probe.Done());
  EXPECT_EQ(old_workers_.started(), 0u);
  EXPECT_EQ(new_workers_.started(), 1u);
  new_workers_.FinishAll();
  EXPECT_EQ(probe.How(), Outcome::kCompiled);
}

TEST_F(RoutingProviderTest, ListsTheRoutesWhereNoneFits) {
  ResultProbe probe;
  provider_->Compile(CallContext(), MakeJobFor(MakeToolchain("9.9.9")), probe.Done());
  EXPECT_EQ(probe.Code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RetryAfter(probe.Result().status()).has_value());
  EXPECT_THAT(std::string(Message(probe.Result().status())),
              AllOf(HasSubstr("9.9.9"), HasSubstr("triton==3.5.1"), HasSubstr("triton==3.6.0")));
}

TEST_F(RoutingProviderTest, RoutesAreExchangedWhileTheyAreUsed) {
  auto workers = std::make_shared<FakeProvider>();
  provider_->Replace({{old_, workers}});
  ResultProbe probe;
  provider_->Compile(CallContext(), MakeJobFor(old_), probe.Done());
  provider_->Replace({{new_, std::make_shared<BorrowedProvider>(new_workers_)}});
  // The compile under way is answered by the route that it was given to, which lives for so long.
  EXPECT_EQ(workers.use_count(), 2);
  workers->FinishAll();
  EXPECT_EQ(probe.How(), Outcome::kCompiled);
  EXPECT_EQ(workers.use_count(), 1);
  ResultProbe later;
  provider_->Compile(CallContext(), MakeJobFor(old_), later.Done());
  EXPECT_EQ(later.Code(), absl::StatusCode::kUnavailable);
  provider_->Compile(CallContext(), MakeJobFor(new_), later.Done());
  EXPECT_EQ(new_workers_.started(), 1u);
}

TEST_F(RoutingProviderTest, DescribesItself) {
  EXPECT_EQ(provider_->Describe(), "routing(fake, fake)");
}

TEST_F(RoutingProviderTest, ToolchainsOfTheSameNameAreToldApart) {
  auto namesake = std::make_shared<Toolchain>(*new_);
  namesake->fingerprint = Digest::Of("another header");
  const auto workers = std::make_shared<FakeProvider>();
  provider_->Replace({{old_, workers}, {new_, workers}, {namesake, workers}});
  EXPECT_EQ(provider_->Describe(),
            fmt::format("routing(fake, fake {}, fake {})", new_->fingerprint.ShortHex(),
                        namesake->fingerprint.ShortHex()));
}

}  // namespace
}  // namespace kiln
