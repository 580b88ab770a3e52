#include "daemon/rpc/request_memo.h"

#include <gtest/gtest.h>

#include "daemon/kernel/request_shape.h"
#include "storage/base/limits.h"
#include "tests/testing/artifacts.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

std::shared_ptr<const PreparedRequest> Prepared(std::string_view source) {
  auto prepared = std::make_shared<PreparedRequest>();
  prepared->job = MakeJob(source);
  return prepared;
}

TEST(RequestMemo, FindsOnlyEqualBytes) {
  RequestMemo memo(1'000'000);
  const auto prepared = Prepared("a");
  memo.Remember("bytes", prepared, 0);
  EXPECT_EQ(memo.Find("bytes"), prepared);
  EXPECT_EQ(memo.Find("byte"), nullptr);
  EXPECT_EQ(memo.Find(std::string_view("bytes\0", 6)), nullptr);
  EXPECT_EQ(memo.Find(""), nullptr);
}

TEST(RequestMemo, TheSameBytesAgainTakeTheNewMeaning) {
  RequestMemo memo(1'000'000);
  memo.Remember("bytes", Prepared("a"), 0);
  const auto newer = Prepared("b");
  memo.Remember("bytes", newer, 0);
  EXPECT_EQ(memo.Find("bytes"), newer);
}

TEST(RequestMemo, ForgetsTheLeastRecentlyUsedRequest) {
  // Each costs 1000 bytes, those of a request that holds next to nothing, and 1024: room for 33.
  const size_t cost = 1000 + RequestBytes(Prepared("12")->job->request) + 1024;
  RequestMemo memo(33 * cost);
  const auto bytes = [](int i) { return Noise(static_cast<uint64_t>(i), 1000); };
  for (int i = 0; i < 33; ++i) memo.Remember(bytes(i), Prepared(std::to_string(i)), 0);
  EXPECT_NE(memo.Find(bytes(0)), nullptr);
  memo.Remember(bytes(33), Prepared("33"), 0);
  EXPECT_NE(memo.Find(bytes(0)), nullptr);
  EXPECT_EQ(memo.Find(bytes(1)), nullptr);
  EXPECT_NE(memo.Find(bytes(2)), nullptr);
}

TEST(RequestMemo, ALargeRequestDoesNotEvictOthers) {
  RequestMemo memo(100'000);
  memo.Remember("small", Prepared("a"), 0);
  const std::string large(90'000, 'x');
  memo.Remember(large, Prepared("b"), 0);
  EXPECT_EQ(memo.Find(large), nullptr);
  EXPECT_NE(memo.Find("small"), nullptr);
}

// Two bytes each on the wire, and hundreds in memory.
TEST(RequestMemo, EmptyParametersCostWhatTheyHold) {
  constexpr size_t kBytesMax = 100 * limits::kMiB;
  RequestMemo memo(kBytesMax);
  const auto with_parameters = [](int i) {
    CompileJob job = *MakeJob(std::to_string(i));
    job.request.specialization.parameters.resize(limits::kParametersMax);
    auto prepared = std::make_shared<PreparedRequest>();
    prepared->job = std::make_shared<const CompileJob>(std::move(job));
    return prepared;
  };
  const auto bytes = [](int i) {
    return Noise(static_cast<uint64_t>(i), 2 * limits::kParametersMax);
  };
  const size_t fit = kBytesMax / (limits::kParametersMax * sizeof(Parameter));
  const int count = static_cast<int>(2 * fit);
  for (int i = 0; i < count; ++i) memo.Remember(bytes(i), with_parameters(i), 0);
  size_t known = 0;
  for (int i = 0; i < count; ++i) known += memo.Find(bytes(i)) == nullptr ? 0 : 1;
  EXPECT_LE(known, fit);
  EXPECT_GE(known, fit / 2);
}

TEST(RequestMemo, ClearForgetsAllRequests) {
  RequestMemo memo(100'000);
  memo.Remember("bytes", Prepared("a"), memo.epoch());
  memo.Clear();
  EXPECT_EQ(memo.Find("bytes"), nullptr);
  const auto newer = Prepared("b");
  memo.Remember("bytes", newer, memo.epoch());
  EXPECT_EQ(memo.Find("bytes"), newer);
}

TEST(RequestMemo, IgnoresARequestPreparedBeforeAClear) {
  RequestMemo memo(100'000);
  const uint64_t before = memo.epoch();
  memo.Clear();
  memo.Remember("bytes", Prepared("of toolchains that are gone"), before);
  EXPECT_EQ(memo.Find("bytes"), nullptr);
}

}  // namespace
}  // namespace kiln
