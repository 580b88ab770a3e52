#include "daemon/sandbox/jail_description.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kiln {
namespace {

using Json = nlohmann::json;

JailDescription SomeJail() {
  JailDescription jail;
  jail.handled_files = 7;
  jail.handled_network = 3;
  jail.scopes = 1;
  jail.paths = {{"/usr/lib", 5}, {"/job/slot-0", 7}};
  jail.filter = {{0x20, 0, 0, 4}, {0x06, 255, 1, UINT32_MAX}};
  jail.view = {{ViewEntry::Kind::kLink, "/lib", "usr/lib"},
               {ViewEntry::Kind::kShownDirectory, "/usr/lib", ""}};
  return jail;
}

TEST(JailDescriptionTest, DecodesAnEncodedJail) {
  const auto decoded = DecodeJail(EncodeJail(SomeJail()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeJail(*decoded), EncodeJail(SomeJail()));
}

TEST(JailDescriptionTest, DecodesEncodedLimits) {
  WorkerLimits limits;
  limits.address_space_bytes = uint64_t{1} << 40;
  limits.cpu_seconds = 7;
  limits.processes = 9;
  limits.disk_bytes = 10;
  limits.disk_entries = 11;
  const auto decoded = DecodeLimits(EncodeLimits(limits));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeLimits(*decoded), EncodeLimits(limits));
}

TEST(JailDescriptionTest, RefusesMalformedDescriptions) {
  for (const auto& [field, value] : {std::pair<const char*, Json>{"scopes", "all"},
                                     {"paths", Json::array({"/usr"})},
                                     {"paths", Json::array({Json::array({"/usr"})})},
                                     {"paths", Json::array({Json::array({1, "/usr"})})},
                                     {"filter", Json::array({Json::array({1, 2, 3})})},
                                     {"view", Json::array({Json::array({"link", "/lib"})})},
                                     {"filter", nullptr}}) {
    Json json = EncodeJail(SomeJail());
    json[field] = value;
    EXPECT_TRUE(absl::IsInternal(DecodeJail(json).status())) << json;
  }
  EXPECT_FALSE(DecodeJail(Json::array()).ok());
  EXPECT_FALSE(DecodeLimits(Json::object()).ok());
}

}  // namespace
}  // namespace kiln
