#include "daemon/rpc/byte_budget.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

class ByteBudgetTest : public ::testing::Test {
 protected:
  std::shared_ptr<ByteBudget> NewUser() { return std::make_shared<ByteBudget>(all_); }

  const std::shared_ptr<SharedBytes> all_{new SharedBytes{100}};
};

TEST_F(ByteBudgetTest, RefusesBytesOverTheBudgetUntilSomeAreGivenBack) {
  const auto user = NewUser();
  EXPECT_TRUE(user->Take(70).ok());  // where nobody holds any
  auto first = user->Take(30);
  ASSERT_TRUE(first.ok());
  const auto second = user->Take(30);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(second.status()).has_value());
  first->reset();
  EXPECT_TRUE(user->Take(50).ok());
  EXPECT_EQ(all_->bytes, 0u);
}

TEST_F(ByteBudgetTest, NoUserHoldsMoreThanIsLeftForTheNextOne) {
  std::vector<ByteBudget::Share> held;
  size_t each[5] = {};
  for (size_t& bytes : each) {
    const auto user = NewUser();
    for (auto share = user->Take(1); share.ok(); share = user->Take(1)) {
      held.push_back(*std::move(share));
      ++bytes;
    }
  }
  EXPECT_EQ(each[0], 50u);
  EXPECT_EQ(each[1], 25u);
  EXPECT_GT(each[4], 0u);
  EXPECT_LE(all_->bytes, 100u);
}

}  // namespace
}  // namespace kiln
