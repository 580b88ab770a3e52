#include "storage/rocks/stored_value.h"

#include <gtest/gtest.h>

#include <string>

#include "storage/base/byte_codec.h"
#include "storage/base/limits.h"
#include "tests/testing/artifacts.h"

namespace kiln {
namespace {

constexpr uint64_t kMax = limits::kMiB;

// A test of both ways to compress.
class StoredValueTest : public testing::TestWithParam<std::string (*)(std::string_view)> {
 protected:
  static std::string Compress(std::string_view raw) { return GetParam()(raw); }
};
INSTANTIATE_TEST_SUITE_P(Codecs, StoredValueTest, testing::Values(CompressValue, CompressForHits),
                         [](const auto& each) { return each.index == 0 ? "Zstd" : "Lz4"; });

absl::StatusCode DecompressCode(std::string_view stored) {
  return DecompressValue(stored, kMax).status().code();
}

TEST_P(StoredValueTest, EverythingComesBack) {
  for (const std::string& raw :
       {std::string(), std::string("short"), std::string(100'000, 'a'), Noise(1, 100'000)}) {
    const auto back = DecompressValue(Compress(raw), kMax);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, raw);
  }
}

TEST_P(StoredValueTest, TextShrinksAndNoiseDoesNotGrowByMoreThanTheFrame) {
  EXPECT_LT(Compress(std::string(100'000, 'a')).size(), 1000u);
  EXPECT_EQ(Compress(Noise(1, 100'000)).size(), 100'000u + 9);
}

TEST_P(StoredValueTest, TruncatedAnywhereIsDataLoss) {
  for (const std::string& raw : {std::string(5000, 'a'), Noise(1, 500)}) {
    const std::string stored = Compress(raw);
    for (size_t size = 0; size < stored.size(); ++size) {
      EXPECT_EQ(DecompressCode(std::string_view(stored).substr(0, size)),
                absl::StatusCode::kDataLoss);
    }
  }
}

TEST_P(StoredValueTest, FlippedBitsNeverCrash) {
  const std::string raw = std::string(3000, 'a') + Noise(2, 100);
  const std::string stored = Compress(raw);
  for (size_t at = 0; at < stored.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = stored;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto result = DecompressValue(damaged, kMax);
      if (result.ok()) {
        EXPECT_EQ(result->size(), raw.size());
      }
    }
  }
}

TEST_P(StoredValueTest, RefusesCompressionBombBeforeAllocating) {
  // 64 MiB of zeroes shrink to a few KB.
  const std::string zeroes(64 * limits::kMiB, '\0');
  EXPECT_LT(CompressValue(zeroes).size(), 100'000u);
  const std::string bomb = Compress(zeroes);
  EXPECT_LT(bomb.size(), zeroes.size() / 200);
  EXPECT_EQ(DecompressCode(bomb), absl::StatusCode::kDataLoss);
}

TEST_P(StoredValueTest, RefusesCompressionBombWithAWrongSize) {
  std::string bomb = Compress(std::string(64 * limits::kMiB, '\0'));
  ByteWriter small;
  small.Number(uint64_t{10});
  bomb.replace(1, sizeof(uint64_t), small.bytes());
  EXPECT_EQ(DecompressCode(bomb), absl::StatusCode::kDataLoss);
}

TEST_P(StoredValueTest, AnUnknownCodecIsDataLoss) {
  std::string stored = Compress("something");
  stored[0] = 9;
  EXPECT_EQ(DecompressCode(stored), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace kiln
