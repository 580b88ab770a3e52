#include "daemon/toolchain/named_owners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NamedOwnersTest : public testing::Test {
 protected:
  NamedOwners Of(const std::vector<std::string>& names) {
    return {names, std::nullopt, [this](const std::string& name) -> absl::StatusOr<uid_t> {
              ++asked_;
              if (is_down_) return Unavailable("the database is down");
              const auto found = users_.find(name);
              if (found == users_.end()) return NotFound("there is no user {}", name);
              return found->second;
            }};
  }

  std::map<std::string, uid_t> users_{{"one", 1001}, {"two", 1002}};
  bool is_down_ = false;
  int asked_ = 0;
};

TEST_F(NamedOwnersTest, GivesTheUidsOfKnownNames) {
  NamedOwners owners = Of({"one", "two"});
  EXPECT_TRUE(owners.Ask());
  EXPECT_THAT(owners.known().further, ElementsAre(1001, 1002));
  EXPECT_FALSE(Of({}).Ask());
  const NamedOwners::Find never = [](const std::string&) -> absl::StatusOr<uid_t> { return 0; };
  EXPECT_EQ(NamedOwners({}, 65534, never).known().shared, 65534);
}

TEST_F(NamedOwnersTest, LeavesOutAnUnknownNameUntilItIsKnown) {
  NamedOwners owners = Of({"late", "one"});
  EXPECT_TRUE(owners.Ask());
  EXPECT_THAT(owners.known().further, ElementsAre(1001));
  EXPECT_FALSE(owners.Ask());
  users_["late"] = 1003;
  EXPECT_TRUE(owners.Ask());
  EXPECT_THAT(owners.known().further, ElementsAre(1001, 1003));
  EXPECT_FALSE(owners.Ask());
}

TEST_F(NamedOwnersTest, KeepsKnownUidsWhileTheDatabaseIsDown) {
  NamedOwners owners = Of({"one"});
  EXPECT_TRUE(owners.Ask());
  is_down_ = true;
  EXPECT_FALSE(owners.Ask());
  EXPECT_THAT(owners.known().further, ElementsAre(1001));
  EXPECT_EQ(asked_, 1);
}

TEST_F(NamedOwnersTest, ADatabaseThatIsDownIsAskedAgain) {
  is_down_ = true;
  NamedOwners owners = Of({"one"});
  EXPECT_FALSE(owners.Ask());
  EXPECT_THAT(owners.known().further, IsEmpty());
  is_down_ = false;
  EXPECT_TRUE(owners.Ask());
  EXPECT_THAT(owners.known().further, ElementsAre(1001));
}

}  // namespace
}  // namespace kiln
