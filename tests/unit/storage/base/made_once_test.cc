#include "storage/base/made_once.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace kiln {
namespace {

TEST(MadeOnce, EverybodySharesTheFirstValue) {
  const MadeOnce<std::string> made;
  EXPECT_EQ(made.Get(), nullptr);
  std::vector<const std::string*> seen(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back(
        [&, i] { seen[i] = &made.Set(std::make_unique<const std::string>(std::to_string(i))); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string* each : seen) EXPECT_EQ(each, made.Get());
}

TEST(MadeOnce, ACopyStartsWithoutAValue) {
  const MadeOnce<std::string> made;
  made.Set(std::make_unique<const std::string>("made"));
  MadeOnce<std::string> copy = made;
  EXPECT_EQ(copy.Get(), nullptr);
  EXPECT_EQ(copy, made);
  copy.Set(std::make_unique<const std::string>("other"));
  copy = made;
  EXPECT_EQ(copy.Get(), nullptr);
  EXPECT_EQ(*made.Get(), "made");
}

}  // namespace
}  // namespace kiln
