#include "storage/artifact_value.h"

#include <gtest/gtest.h>

#include "tests/testing/artifacts.h"

namespace kiln {
namespace {

constexpr int64_t kNow = 1'704'067'200'000;
constexpr int64_t kDay = int64_t{24} * 3600 * 1000;

ArtifactRecord Record(uint64_t compile_micros, uint64_t size_bytes) {
  ArtifactRecord record;
  record.stages = {{"cubin", Digest(), size_bytes}};
  record.compile_micros = compile_micros;
  record.created_unix_ms = kNow;
  return record;
}

double Value(const ArtifactRecord& record, uint64_t hits = 0, int64_t idle_ms = 0) {
  return ArtifactValue(record, {kNow, hits, false}, kNow + idle_ms);
}

TEST(ArtifactValueTest, LongerCompileIsWorthMore) {
  EXPECT_GT(Value(Record(2'000'000, 1000)), Value(Record(1'000'000, 1000)));
}

TEST(ArtifactValueTest, LargerIsWorthLess) {
  EXPECT_LT(Value(Record(1'000'000, 100'000)), Value(Record(1'000'000, 1000)));
}

TEST(ArtifactValueTest, UsedIsWorthMoreAndIdleIsWorthLess) {
  const ArtifactRecord record = Record(1'000'000, 1000);
  EXPECT_GT(Value(record, 10), Value(record, 1));
  EXPECT_LT(Value(record, 10, kDay), Value(record, 10));
  EXPECT_DOUBLE_EQ(Value(record, 10, kDay), Value(record, 10) / 2);
}

TEST(ArtifactValueTest, ClockThatWentBackKeepsValuesFinite) {
  const ArtifactRecord record = Record(1'000'000, 1000);
  EXPECT_DOUBLE_EQ(Value(record, 1, -kDay), Value(record, 1));
}

TEST(ArtifactValueTest, FreeAndEmptyArtifactsAreWorthSomethingFinite) {
  const double value = ArtifactValue(ArtifactRecord(), ArtifactUsage(), kNow);
  EXPECT_GT(value, 0);
  EXPECT_LT(value, 1);
}

}  // namespace
}  // namespace kiln
