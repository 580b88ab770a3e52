#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/kernel/ptx_options.h"
#include "daemon/worker/native/command_arguments.h"
#include "daemon/worker/native/ptxas_report.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PtxasOptionsTest, ArgumentsStandInTheOrderOfTheirNames) {
  const auto arguments = ArgumentsFor(PtxasOptions(), {{"opt-level", {int64_t{2}}},
                                                       {"fmad", {false}},
                                                       {"generate-line-info", {true}},
                                                       {"device-debug", {false}},
                                                       {"maxnreg", {int64_t{64}}},
                                                       {"entry", {std::string("_Z3addPf$x")}},
                                                       {"def-load-cache", {std::string("cg")}}});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(*arguments,
              ElementsAre("--def-load-cache=cg", "--entry=_Z3addPf$x", "--fmad=false",
                          "--generate-line-info", "--maxrregcount=64", "--opt-level=2"));
  EXPECT_THAT(*ArgumentsFor(PtxasOptions(), {}), IsEmpty());
}

TEST(PtxasOptionsTest, UnlistedOptionsNeverReachACommandLine) {
  const std::vector<std::pair<std::string, OptionValue>> hostile = {
      {"output-file", {std::string("/tmp/x")}},
      {"options-file", {std::string("/etc/passwd")}},
      {"input-as-string", {std::string(".version 8.0")}},
      {"gpu-name", {std::string("sm_80")}},
      {"split-compile", {int64_t{0}}},
      {"o", {std::string("x")}},
      {"", {true}},
      {"fmad=true --output-file", {true}},
      {"opt-level", {int64_t{5}}},
      {"opt-level", {int64_t{-1}}},
      {"opt-level", {std::string("3")}},
      {"opt-level", {3.0}},
      {"fmad", {std::string("true")}},
      {"device-debug", {int64_t{1}}},
      {"entry", {std::string("a b")}},
      {"entry", {std::string("a,b")}},
      {"entry", {std::string("-o")}},
      {"entry", {std::string("a\n")}},
      {"entry", {std::string("")}},
      {"entry", {std::string("1a")}},
      {"entry", {std::string(5000, 'a')}},
      {"entry", {std::string("../../etc/passwd")}},
      {"def-load-cache", {std::string("ca -o x")}},
      {"sanitize", {std::string("")}},
      {"maxnreg", {OptionTuple{{int64_t{64}}}}},
  };
  for (const auto& [name, value] : hostile) {
    const auto arguments = ArgumentsFor(PtxasOptions(), {{name, value}});
    EXPECT_TRUE(absl::IsInvalidArgument(arguments.status())) << name;
  }
}

TEST(PtxasOptionsTest, DeclaresWhatTheHelpLists) {
  const auto declared = DescribePtxasOptions(R"(
--fmad <true|false>                                 (-fmad)
        Enables
--maxrregcount <archmax/archmin/N>                  (-maxrregcount)
--device-debug                                      (-g)
--output-file <file>                                (-o)
)");
  EXPECT_EQ(declared["fmad"], nlohmann::json({{"type", "bool"}}));
  EXPECT_EQ(declared["maxnreg"], nlohmann::json({{"type", "integer"}}));
  EXPECT_EQ(declared["device-debug"], nlohmann::json({{"type", "bool"}, {"default", false}}));
  EXPECT_FALSE(declared.contains("output-file"));
  EXPECT_FALSE(declared.contains("opt-level"));
}

}  // namespace
}  // namespace kiln
