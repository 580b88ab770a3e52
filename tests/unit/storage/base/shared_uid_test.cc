#include "storage/base/shared_uid.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(SharedUidTest, NoSharedUidWhereEveryUserIsMapped) {
  EXPECT_EQ(SharedUid("         0          0 4294967295\n", "65534\n"), std::nullopt);
  EXPECT_EQ(SharedUid("0 0 1000\n1000 1000 1\n1001 1001 4294966294\n", "65534\n"), std::nullopt);
}

TEST(SharedUidTest, OverflowUidIsSharedWhereSomeUsersAreMapped) {
  EXPECT_EQ(SharedUid("         0     100000      65536\n", "65534\n"), 65534u);
  EXPECT_EQ(SharedUid("0 1000 1\n", "4242\n"), 4242u);
  EXPECT_EQ(SharedUid("0 0 4294967294\n", "65534\n"), 65534u);
}

TEST(SharedUidTest, UnreadableMapsMapNobody) {
  for (const char* text : {"", "garbage", "0 0", "0 0 many\n", "0 0 -1\n"}) {
    EXPECT_EQ(SharedUid(text, "nonsense"), 65534u) << text;
  }
}

TEST(SharedUidTest, RefusesThePrincipalOfTheSharedUid) {
  EXPECT_TRUE(CheckIsOneUser(std::nullopt, {65534, false}).ok());
  EXPECT_TRUE(CheckIsOneUser(65534, {1000, false}).ok());
  EXPECT_EQ(CheckIsOneUser(65534, {65534, false}).code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace kiln
