#include "daemon/policy/memory_estimator.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

constexpr uint64_t kMiB = limits::kMiB;
constexpr uint64_t kDefault = 256 * kMiB;

class MemoryEstimatorTest : public testing::Test {
 protected:
  void Learn(const CompileJobPtr& job, uint64_t bytes, int times) {
    for (int i = 0; i < times; ++i) estimator_.Learn(*job, bytes);
  }
  // At most one step of the histogram over it.
  void ExpectAbout(const CompileJobPtr& job, uint64_t bytes) {
    EXPECT_GE(estimator_.BytesFor(*job), bytes);
    EXPECT_LE(estimator_.BytesFor(*job), bytes * 6 / 5);
  }

  MemoryEstimator estimator_{kDefault};
  const CompileJobPtr job_ = MakeJob("source");
};

TEST_F(MemoryEstimatorTest, AssumesTheDefaultUntilItHasSeenSome) {
  EXPECT_EQ(estimator_.BytesFor(*job_), kDefault);
  Learn(job_, 30 * kMiB, 7);
  EXPECT_EQ(estimator_.BytesFor(*job_), kDefault);
  Learn(job_, 30 * kMiB, 1);
  ExpectAbout(job_, 30 * kMiB);
}

TEST_F(MemoryEstimatorTest, AFewLargeOnesCountAtOnce) {
  Learn(job_, 1024 * kMiB, 1);
  ExpectAbout(job_, 1024 * kMiB);
}

TEST_F(MemoryEstimatorTest, EstimatesAHighPercentile) {
  Learn(job_, 30 * kMiB, 97);
  Learn(job_, 2000 * kMiB, 3);
  ExpectAbout(job_, 30 * kMiB);
  Learn(job_, 2000 * kMiB, 5);
  ExpectAbout(job_, 2000 * kMiB);
}

TEST_F(MemoryEstimatorTest, ForgetsOldMeasurements) {
  Learn(job_, 2000 * kMiB, 200);
  Learn(job_, 30 * kMiB, 100);
  ExpectAbout(job_, 2000 * kMiB);
  Learn(job_, 30 * kMiB, 250);
  ExpectAbout(job_, 30 * kMiB);
}

TEST_F(MemoryEstimatorTest, IgnoresUnmeasuredCompiles) {
  Learn(job_, 0, 100);
  EXPECT_EQ(estimator_.BytesFor(*job_), kDefault);
}

TEST_F(MemoryEstimatorTest, ToolchainsBackendsAndSizesAreToldApart) {
  Learn(job_, 30 * kMiB, 20);
  EXPECT_EQ(estimator_.BytesFor(*MakeJob(std::string(20'000, 'x'))), kDefault);
  EXPECT_EQ(estimator_.BytesFor(*MakeJobWithHeader("source", 20'000)), kDefault);
  CompileJob other = *job_;
  other.request.target.backend = "hip";
  EXPECT_EQ(estimator_.BytesFor(other), kDefault);
  other = *job_;
  auto toolchain = std::make_shared<Toolchain>(*job_->toolchain);
  toolchain->fingerprint = Digest::Of("another");
  other.toolchain = toolchain;
  EXPECT_EQ(estimator_.BytesFor(other), kDefault);
  // Sources of about the same size.
  ExpectAbout(MakeJob("another source"), 30 * kMiB);
}

TEST_F(MemoryEstimatorTest, HoldsForTheSmallestAndTheLargest) {
  Learn(job_, 1, 20);
  EXPECT_LE(estimator_.BytesFor(*job_), 2 * kMiB);
  Learn(job_, uint64_t{1} << 50, 100);
  EXPECT_GE(estimator_.BytesFor(*job_), 60 * limits::kGiB);
}

}  // namespace
}  // namespace kiln
