#include "storage/base/users.h"

#include <gtest/gtest.h>

#include "tests/testing/no_more_descriptors.h"

namespace kiln {
namespace {

TEST(UsersTest, ByNameOrNumber) {
  EXPECT_EQ(*FindUser("root"), 0u);
  EXPECT_EQ(*FindUser("0"), 0u);
  EXPECT_EQ(*FindUser("1234567"), 1'234'567u);
  for (const char* text : {"", "no-such-user", "-1", "1x", "4294967295", "99999999999"}) {
    EXPECT_TRUE(absl::IsNotFound(FindUser(text).status())) << text;
  }
  EXPECT_EQ(*NameOfUser(0), "root");
  EXPECT_EQ(*NameOfUser(1'234'567), "");
}

TEST(UsersTest, Groups) {
  const auto root = FindGroup(0);
  ASSERT_TRUE(root.ok() && root->has_value());
  EXPECT_EQ((*root)->name, "root");
  const auto none = FindGroup(1'234'567);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(UsersTest, FailedLookUpIsAnErrorAndNoAbsence) {
  const NoMoreDescriptors none;
  EXPECT_TRUE(absl::IsUnavailable(FindGroup(1'234'567).status()));
  EXPECT_TRUE(absl::IsUnavailable(NameOfUser(1'234'567).status()));
  EXPECT_TRUE(absl::IsUnavailable(FindUser("no-such-user").status()));
}

}  // namespace
}  // namespace kiln
