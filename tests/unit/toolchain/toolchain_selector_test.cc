#include "daemon/toolchain/toolchain_selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

namespace kiln {
namespace {

using ::testing::HasSubstr;

Toolchain MakeToolchain() {
  Toolchain toolchain;
  toolchain.name = "triton";
  toolchain.version = "3.6.0";
  toolchain.fingerprint = Digest::Of("bytes");
  return toolchain;
}

bool Matches(const std::string& selector) {
  const auto parsed = ToolchainSelector::Parse(selector);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() && parsed->Matches(MakeToolchain());
}

TEST(ToolchainSelectorTest, EmptyIsAny) {
  EXPECT_TRUE(Matches(""));
  EXPECT_TRUE(ToolchainSelector::Parse("")->IsAny());
}

TEST(ToolchainSelectorTest, NameAndVersionAreExact) {
  EXPECT_TRUE(Matches("triton==3.6.0"));
  EXPECT_FALSE(Matches("triton==3.6"));
  EXPECT_FALSE(Matches("triton==3.6.0+rocm7"));
  EXPECT_FALSE(Matches("Triton==3.6.0"));
  EXPECT_FALSE(Matches("gcc==12"));
  EXPECT_FALSE(ToolchainSelector::Parse("gcc==12")->IsAny());
}

TEST(ToolchainSelectorTest, AFingerprintInEitherCaseWithOrWithoutItsKind) {
  const std::string hex = Digest::Of("bytes").Hex();
  std::string upper = hex;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_TRUE(Matches(hex));
  EXPECT_TRUE(Matches(upper));
  EXPECT_TRUE(Matches("sha256:" + hex));
  EXPECT_FALSE(Matches(Digest::Of("others").Hex()));
  EXPECT_FALSE(Matches(std::string(64, '0')));
  EXPECT_FALSE(ToolchainSelector::Parse(hex)->IsAny());
  EXPECT_FALSE(ToolchainSelector::Parse(hex)->IsBeginning());
}

TEST(ToolchainSelectorTest, EightDigitsOfAFingerprintAreEnough) {
  const std::string hex = Digest::Of("bytes").Hex();
  for (const size_t digits : {8, 12, 63}) {
    EXPECT_TRUE(Matches(hex.substr(0, digits)));
    EXPECT_TRUE(Matches("sha256:" + hex.substr(0, digits)));
    EXPECT_FALSE(Matches(Digest::Of("others").Hex().substr(0, digits)));
    EXPECT_TRUE(ToolchainSelector::Parse(hex.substr(0, digits))->IsBeginning());
  }
}

TEST(ToolchainSelectorTest, RefusesOtherFormsAndListsTheValidOnes) {
  const std::string hex = Digest::Of("bytes").Hex();
  for (const std::string& text :
       {std::string("triton"), std::string("3.6.0"), std::string("triton=3.6.0"),
        std::string("triton=="), std::string("==3.6.0"), std::string("triton>=3.6"),
        std::string("triton==3.6.0 "), std::string("tri/ton==1"), std::string("triton==../x"),
        std::string("../../etc"), std::string("sha256:"), hex.substr(0, 7), hex + "0",
        "sha256:" + hex.substr(0, 7), hex.substr(0, 11) + "g", "sha512:" + hex,
        std::string("a\0b", 3), "triton==" + std::string(65, '1'), std::string(100'000, '=')}) {
    const auto parsed = ToolchainSelector::Parse(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(Message(parsed.status())), HasSubstr("triton==3.6.0"));
    EXPECT_LT(Message(parsed.status()).size(), 300u);
  }
}

}  // namespace
}  // namespace kiln
