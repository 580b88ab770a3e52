#include "daemon/worker/native/command_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/worker/native/nvrtc_options.h"

namespace kiln {
namespace {

using testing::ElementsAre;

OptionValue Strings(const std::vector<std::string>& texts) {
  OptionTuple tuple;
  for (const std::string& text : texts) tuple.push_back({text});
  return {std::move(tuple)};
}

absl::StatusOr<std::vector<std::string>> Nvrtc(const std::string& name, OptionValue value) {
  return ArgumentsFor(NvrtcOptions(), {{name, std::move(value)}});
}

TEST(CommandArgumentsTest, AMacroIsOneArgumentWhateverItsValue) {
  const auto arguments =
      Nvrtc("define-macro", Strings({"N=64", "FAST", "TEXT=\"a b\" --include-path=/etc; rm"}));
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(*arguments, ElementsAre("--define-macro=N=64", "--define-macro=FAST",
                                      "--define-macro=TEXT=\"a b\" --include-path=/etc; rm"));
}

TEST(CommandArgumentsTest, NumbersShareAnArgument) {
  const auto arguments = Nvrtc("diag-suppress", {OptionTuple{{int64_t{177}}, {int64_t{550}}}});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(*arguments, ElementsAre("--diag-suppress=177,550"));
}

TEST(CommandArgumentsTest, UnlistedOptionsNeverReachNvrtc) {
  const std::vector<std::pair<std::string, OptionValue>> hostile = {
      {"include-path", {std::string("/etc")}},
      {"pre-include", Strings({"/etc/passwd"})},
      {"create-pch", {std::string("/tmp/x")}},
      {"use-pch", {std::string("/etc/passwd")}},
      {"pch-dir", {std::string("/")}},
      {"time", {std::string("/tmp/x")}},
      {"fdevice-time-trace", {std::string("/tmp/x")}},
      {"ptxas-options", {std::string("--options-file=/etc/passwd")}},
      {"gpu-architecture", {std::string("sm_80")}},
      {"split-compile", {int64_t{0}}},
      {"define-macro", {std::string("N=1")}},
      {"define-macro", Strings({"=1"})},
      {"define-macro", Strings({"A B=1"})},
      {"define-macro", Strings({"-I/etc"})},
      {"define-macro", Strings({"A=\n#include \"/etc/passwd\""})},
      {"define-macro", Strings({std::string("A=\0b", 4)})},
      {"define-macro", {OptionTuple{{int64_t{1}}}}},
      {"undefine-macro", Strings({""})},
      {"std", {std::string("c++98")}},
      {"std", {std::string("c++17 -I/etc")}},
      {"diag-suppress", {OptionTuple{}}},
      {"diag-suppress", {OptionTuple{{int64_t{-1}}}}},
      {"diag-suppress", Strings({"1"})},
      {"fmad", {int64_t{0}}},
  };
  for (const auto& [name, value] : hostile) {
    EXPECT_TRUE(absl::IsInvalidArgument(Nvrtc(name, value).status())) << name;
  }
}

TEST(CommandArgumentsTest, OnlyFlagsHaveADefault) {
  for (const CommandOption& option : NvrtcOptions()) {
    EXPECT_EQ(Declare(option).contains("default"), option.takes == CommandOption::Takes::kNothing)
        << option.name;
  }
}

}  // namespace
}  // namespace kiln
