#include "storage/base/users.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(UsersTest, ByNameOrNumber) {
  EXPECT_EQ(FindUser("root"), 0u);
  EXPECT_EQ(FindUser("0"), 0u);
  EXPECT_EQ(FindUser("1234567"), 1'234'567u);
  for (const char* text : {"", "no-such-user", "-1", "1x", "4294967295", "99999999999"}) {
    EXPECT_EQ(FindUser(text), std::nullopt) << text;
  }
  EXPECT_EQ(NameOfUser(0), "root");
  EXPECT_EQ(NameOfUser(1'234'567), "");
}

TEST(UsersTest, Groups) {
  EXPECT_EQ(FindGroup(0).value_or(UserGroup()).name, "root");
  EXPECT_FALSE(FindGroup(1'234'567).has_value());
}

}  // namespace
}  // namespace kiln
