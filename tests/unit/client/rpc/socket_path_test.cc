#include "client/rpc/socket_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace kiln {
namespace {

using ::testing::HasSubstr;

struct Place {
  std::map<std::string, std::string> variables;
  std::set<std::string> files;
  uid_t uid = 1000;

  absl::StatusOr<std::string> Find(std::string_view path = "", std::string_view root = "",
                                   std::string_view file = kServiceSocket) const {
    return FindSocket(path, root, file,
                      {.variable =
                           [this](const char* name) {
                             const auto found = variables.find(name);
                             return found == variables.end() ? nullptr : found->second.c_str();
                           },
                       .exists = [this](const std::string& name) { return files.contains(name); },
                       .uid = uid});
  }
};

TEST(FindSocket, NamedSocketWinsOverRootAndVariables) {
  const Place place{{{"KILN_ROOT", "/variable"}}, {"/run/kiln/kilnd.sock"}};
  EXPECT_EQ(*place.Find("/named.sock", "/root"), "/named.sock");
  EXPECT_EQ(*place.Find("", "/root"), "/root/run/kilnd.sock");
  EXPECT_EQ(*place.Find("", "/root", kAdminSocket), "/root/run/admin.sock");
  EXPECT_EQ(*place.Find(), "/variable/run/kilnd.sock");
}

TEST(FindSocket, AnEmptyVariableIsNoVariable) {
  const Place place{{{"KILN_ROOT", ""}, {"XDG_RUNTIME_DIR", ""}}, {"/run/kiln/kilnd.sock"}};
  EXPECT_EQ(*place.Find(), "/run/kiln/kilnd.sock");
}

TEST(FindSocket, APersonsDaemonComesBeforeTheSystems) {
  Place place{{{"XDG_RUNTIME_DIR", "/run/user/1000"}},
              {"/run/user/1000/kiln/kilnd.sock", "/run/kiln/kilnd.sock"}};
  EXPECT_EQ(*place.Find(), "/run/user/1000/kiln/kilnd.sock");
  place.files.erase("/run/user/1000/kiln/kilnd.sock");
  EXPECT_EQ(*place.Find(), "/run/kiln/kilnd.sock");
}

TEST(FindSocket, WhatADaemonLeftCountsWhereThereIsNone) {
  Place place{{{"XDG_RUNTIME_DIR", "/x"}}, {"/x/kiln/hot/toolchains", "/run/kiln/kilnd.sock"}};
  EXPECT_EQ(*place.Find(), "/run/kiln/kilnd.sock");
  place.files.erase("/run/kiln/kilnd.sock");
  EXPECT_EQ(*place.Find(), "/x/kiln/kilnd.sock");
}

TEST(FindSocket, UsesTheStateDirectoryWithoutARuntimeDirectory) {
  Place place{{{"HOME", "/home/u"}}, {"/home/u/.local/state/kiln/run/kilnd.sock"}};
  EXPECT_EQ(*place.Find(), "/home/u/.local/state/kiln/run/kilnd.sock");
  place.variables["XDG_STATE_HOME"] = "/state";
  place.files = {"/state/kiln/run/kilnd.sock"};
  EXPECT_EQ(*place.Find(), "/state/kiln/run/kilnd.sock");
}

TEST(FindSocket, RootHasOnlyTheSystems) {
  const Place place{{{"XDG_RUNTIME_DIR", "/run/user/0"}},
                    {"/run/user/0/kiln/kilnd.sock", "/run/kiln/kilnd.sock"},
                    0};
  EXPECT_EQ(*place.Find(), "/run/kiln/kilnd.sock");
}

TEST(FindSocket, ErrorNamesEverySearchedPlace) {
  const Place place{{{"XDG_RUNTIME_DIR", "/run/user/1000"}}, {}};
  const auto found = place.Find();
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(found.status())),
              HasSubstr("/run/user/1000/kiln/kilnd.sock or /run/kiln/kilnd.sock"));
}

TEST(InSocketFolder, NamesAFileInTheSocketsFolder) {
  EXPECT_EQ(InSocketFolder("/a/b/kilnd.sock", "hot"), "/a/b/hot");
  EXPECT_EQ(InSocketFolder("kilnd.sock", "hot"), "hot");
}

}  // namespace
}  // namespace kiln
