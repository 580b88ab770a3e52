#include "daemon/pool/abort_diagnosis.h"

#include <gtest/gtest.h>

#include "storage/base/limits.h"

namespace kiln {
namespace {

constexpr char kUnsupported[] =
    "LLVM ERROR: Conversion from/to f8e4m3nv is only supported on compute capability >= 89\n";

TEST(DiagnoseAbortTest, UnsupportedFeatureIsAFailureOfTheSource) {
  const auto failure = DiagnoseAbort(std::string("warning: something\n") + kUnsupported, "llir");
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(failure->stage, "llir");
  EXPECT_EQ(failure->message,
            "Conversion from/to f8e4m3nv is only supported on compute capability >= 89");
  EXPECT_TRUE(failure->deterministic);
  EXPECT_NE(failure->output.find("warning: something"), std::string::npos);
}

TEST(DiagnoseAbortTest, CutsTheStackTraceBehindTheMessage) {
  const auto failure = DiagnoseAbort(kUnsupported + std::string("#0 0x1234 in pass\n"), "");
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->message.find('#'), std::string::npos);
}

TEST(DiagnoseAbortTest, TheLastWordsCount) {
  EXPECT_EQ(DiagnoseAbort("LLVM ERROR: first\nLLVM ERROR: second\n", "")->message, "second");
}

TEST(DiagnoseAbortTest, OtherAbortsAreNotAFailureOfTheSource) {
  for (const char* output :
       {"", "Segmentation fault\n", "LLVM ERROR: ", "LLVM ERROR: \n", "not an LLVM ERROR: x\n",
        "LLVM ERROR: out of memory\n", "LLVM ERROR: Unable to allocate section memory!\n",
        "LLVM ERROR: IO failure on output stream: No space left on device\n",
        "Assertion `x' failed.\n"}) {
    EXPECT_EQ(DiagnoseAbort(output, "").has_value(), false) << output;
  }
}

TEST(DiagnoseAbortTest, MuchOutputIsCutToItsEnd) {
  const auto failure =
      DiagnoseAbort("LLVM ERROR: " + std::string(1 << 20, 'x') + "\nthe end\n", "");
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->message.size(), limits::kNameBytesMax);
  EXPECT_EQ(failure->output.size(), limits::kDiagnosticsBytesMax);
  EXPECT_NE(failure->output.find("the end"), std::string::npos);
}

}  // namespace
}  // namespace kiln
