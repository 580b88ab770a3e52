#include "daemon/rpc/request_memo.h"

#include <gtest/gtest.h>

#include "tests/testing/artifacts.h"
#include "tests/testing/fake_provider.h"

namespace kiln {
namespace {

std::shared_ptr<const PreparedRequest> Prepared(std::string_view source) {
  auto prepared = std::make_shared<PreparedRequest>();
  prepared->job = MakeJob(source);
  return prepared;
}

TEST(RequestMemo, OnlyEqualBytesAreKnownAgain) {
  RequestMemo memo(1'000'000);
  const auto prepared = Prepared("a");
  memo.Remember("bytes", prepared);
  EXPECT_EQ(memo.Find("bytes"), prepared);
  EXPECT_EQ(memo.Find("byte"), nullptr);
  EXPECT_EQ(memo.Find(std::string_view("bytes\0", 6)), nullptr);
  EXPECT_EQ(memo.Find(""), nullptr);
}

TEST(RequestMemo, TheSameBytesAgainTakeTheNewMeaning) {
  RequestMemo memo(1'000'000);
  memo.Remember("bytes", Prepared("a"));
  const auto newer = Prepared("b");
  memo.Remember("bytes", newer);
  EXPECT_EQ(memo.Find("bytes"), newer);
}

TEST(RequestMemo, ForgetsWhatWasUsedLeastRecently) {
  // Each costs 2 * 1000 + 1024 bytes: there is room for 33.
  RequestMemo memo(100'000);
  const auto bytes = [](int i) { return Noise(static_cast<uint64_t>(i), 1000); };
  for (int i = 0; i < 33; ++i) memo.Remember(bytes(i), Prepared(std::to_string(i)));
  EXPECT_NE(memo.Find(bytes(0)), nullptr);
  memo.Remember(bytes(33), Prepared("33"));
  EXPECT_NE(memo.Find(bytes(0)), nullptr);
  EXPECT_EQ(memo.Find(bytes(1)), nullptr);
  EXPECT_NE(memo.Find(bytes(2)), nullptr);
}

TEST(RequestMemo, OneLargeRequestDoesNotPushOutTheOthers) {
  RequestMemo memo(100'000);
  memo.Remember("small", Prepared("a"));
  const std::string large(90'000, 'x');
  memo.Remember(large, Prepared("b"));
  EXPECT_EQ(memo.Find(large), nullptr);
  EXPECT_NE(memo.Find("small"), nullptr);
}

}  // namespace
}  // namespace kiln
