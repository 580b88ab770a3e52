#include "daemon/worker/native/ptxas_report.h"

#include <absl/strings/ascii.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace kiln {
namespace {

using testing::HasSubstr;

// What ptxas 13.0.88 and 12.8.93 write.
TEST(PtxasReportTest, UsageByEntry) {
  const auto usage = ReadPtxasUsage(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for helper
    8 bytes stack frame, 9 bytes spill stores, 10 bytes spill loads
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
ptxas info    : Compile time = 20.266 ms
ptxas info    : Compiling entry function 'add' for 'sm_90'
ptxas info    : Function properties for add
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 256 bytes smem, 372 bytes cmem[0]
)");
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_EQ(usage.at("other").registers, 4);
  EXPECT_EQ(usage.at("other").shared_bytes, 0);
  EXPECT_EQ(usage.at("other").spill_store_bytes, 0);
  const PtxasUsage& add = usage.at("add");
  EXPECT_EQ(add.registers, 10);
  EXPECT_EQ(add.shared_bytes, 256);
  EXPECT_EQ(add.stack_bytes, 16);
  EXPECT_EQ(add.spill_store_bytes, 24);
  EXPECT_EQ(add.spill_load_bytes, 32);
}

TEST(PtxasReportTest, UnreportedUsageIsAbsent) {
  const auto usage = ReadPtxasUsage("ptxas info    : Compiling entry function 'a' for 'sm_90'\n");
  ASSERT_EQ(usage.count("a"), 1u);
  EXPECT_EQ(usage.at("a").registers, std::nullopt);
  EXPECT_EQ(usage.at("a").spill_store_bytes, std::nullopt);
  EXPECT_TRUE(ReadPtxasUsage("").empty());
  EXPECT_TRUE(ReadPtxasUsage("ptxas info : Used 7 registers").empty());
}

TEST(PtxasReportTest, TheFirstComplaintWithItsLine) {
  const auto failure = ReadPtxasFailure(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas kernel.ptx, line 5; error   : Not a name of any known instruction: 'foo'\n"
      "ptxas kernel.ptx, line 9; error   : another\n"
      "ptxas fatal   : Ptx assembly aborted due to errors\n",
      "no words");
  EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(failure.deterministic);
  EXPECT_EQ(failure.line, 5);
  EXPECT_EQ(failure.message, "ptxas: Not a name of any known instruction: 'foo'");
  EXPECT_THAT(failure.output, HasSubstr("aborted"));
}

TEST(PtxasReportTest, TooMuchSharedMemoryIsResourceExhausted) {
  const auto failure = ReadPtxasFailure(
      "ptxas error   : Entry function 'a' uses too much shared data (0x186a0 bytes, 0xc000 max)\n",
      "");
  EXPECT_EQ(failure.code, absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(failure.line, 0);
}

TEST(PtxasReportTest, FaultOfTheMachineIsNotAVerdict) {
  for (const char* log : {"", "ptxas fatal   : Memory allocation failure\n", "Killed\n"}) {
    const auto failure = ReadPtxasFailure(log, "it was killed");
    EXPECT_EQ(failure.code, absl::StatusCode::kInternal) << log;
    EXPECT_FALSE(failure.deterministic) << log;
  }
  EXPECT_EQ(ReadPtxasFailure("", "it was killed").message, "it was killed");
}

TEST(PtxasReportTest, UnwritableFileIsAFaultOfTheMachine) {
  const auto failure =
      ReadPtxasFailure("ptxas fatal   : Could not open output file 'kernel.cubin'\n", "");
  EXPECT_EQ(failure.code, absl::StatusCode::kUnavailable);
  EXPECT_FALSE(failure.deterministic);
}

TEST(PtxasReportTest, BothWorkersReadComplaintsAlike) {
  std::ifstream file(KILN_SOURCE_DIR "/tests/vectors/ptxas_complaints.json");
  const auto cases = nlohmann::json::parse(file).at("cases");
  ASSERT_FALSE(cases.empty());
  for (const auto& each : cases) {
    const std::string log = each.at("log");
    const auto failure = ReadPtxasFailure(log, "");
    EXPECT_EQ(absl::AsciiStrToLower(absl::StatusCodeToString(failure.code)),
              each.at("code").get<std::string>())
        << log;
    EXPECT_EQ(failure.deterministic, each.at("deterministic").get<bool>()) << log;
    if (each.contains("message")) {
      EXPECT_EQ(failure.message, each.at("message").get<std::string>());
    }
  }
}

TEST(PtxasReportTest, ATextForAnotherArchitectureNamesTheOneToAskFor) {
  for (const std::string complaint :
       {"SM version specified by .target is higher than default SM version assumed",
        "PTX with .target 'sm_90a' cannot be compiled for architecture 'sm_80'",
        "Program with .target 'sm_90a' cannot be compiled to future architecture"}) {
    auto failure = ReadPtxasFailure("ptxas fatal   : " + complaint + "\n", "");
    NameArchitectureOf(".version 8.0\n.target sm_90a\n", failure);
    EXPECT_EQ(failure.message,
              "ptxas: " + complaint + "; this PTX says .target sm_90a: ask for --target cuda:90a");
  }
  auto other = ReadPtxasFailure(
      "ptxas kernel.ptx, line 5; error   : Feature 'x' requires .target sm_90 or higher\n", "");
  const std::string message = other.message;
  NameArchitectureOf(".version 8.0\n.target sm_80\n", other);
  EXPECT_EQ(other.message, message);
}

TEST(PtxasReportTest, IgnoresWordsOfTheSource) {
  const auto failure = ReadPtxasFailure(
      "ptxas info    : error: fatal\n"
      "ptxas warning : my error handler is called : x\n"
      "ptxas fatal   : PTX with .target 'sm_90a' cannot be compiled for architecture 'sm_90'\n",
      "");
  EXPECT_THAT(failure.message, HasSubstr("sm_90a"));
}

}  // namespace
}  // namespace kiln
