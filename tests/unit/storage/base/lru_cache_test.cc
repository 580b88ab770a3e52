#include "storage/base/lru_cache.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

const Digest kA = Digest::Of("a");
const Digest kB = Digest::Of("b");
const Digest kC = Digest::Of("c");

TEST(LruCache, DropsTheLeastRecentlyUsed) {
  LruCache<int> cache(2, 100);
  cache.Insert(kA, 1, 1);
  cache.Insert(kB, 2, 1);
  EXPECT_EQ(*cache.Find(kA), 1);
  cache.Insert(kC, 3, 1);
  EXPECT_EQ(cache.Find(kB), nullptr);
  EXPECT_EQ(*cache.Find(kA), 1);
  EXPECT_EQ(*cache.Find(kC), 3);
}

TEST(LruCache, MakesRoomByBytesToo) {
  LruCache<int> cache(10, 100);
  cache.Insert(kA, 1, 60);
  cache.Insert(kB, 2, 40);
  EXPECT_EQ(cache.size(), 2u);
  cache.Insert(kC, 3, 50);
  EXPECT_EQ(cache.Find(kA), nullptr);
  EXPECT_EQ(cache.bytes(), 90u);
}

TEST(LruCache, DropsAValueThatIsTooLargeByItself) {
  LruCache<int> cache(10, 100);
  cache.Insert(kA, 1, 10);
  cache.Insert(kB, 2, 101);
  EXPECT_EQ(cache.Find(kB), nullptr);
  EXPECT_EQ(*cache.Find(kA), 1);
}

TEST(LruCache, ReplacesAnEarlierValue) {
  LruCache<int> cache(10, 100);
  cache.Insert(kA, 1, 10);
  cache.Insert(kA, 2, 20);
  EXPECT_EQ(*cache.Find(kA), 2);
  EXPECT_EQ(cache.bytes(), 20u);
  cache.Erase(kA);
  cache.Erase(kA);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(LruCache, EraseIfErasesMatchingValues) {
  LruCache<int> cache(10, 100);
  cache.Insert(kA, 1, 10);
  cache.Insert(kB, 2, 20);
  cache.Insert(kC, 3, 30);
  cache.EraseIf([](int value) { return value != 2; });
  EXPECT_EQ(cache.Find(kA), nullptr);
  EXPECT_EQ(*cache.Find(kB), 2);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.bytes(), 20u);
}

TEST(LruCache, IsEmptyOnceCleared) {
  LruCache<int> cache(10, 100);
  cache.Insert(kA, 1, 100);
  cache.Clear();
  EXPECT_EQ(cache.Find(kA), nullptr);
  EXPECT_EQ(cache.bytes(), 0u);
  cache.Insert(kA, 2, 100);
  EXPECT_EQ(*cache.Find(kA), 2);
}

}  // namespace
}  // namespace kiln
