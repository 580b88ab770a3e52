#include "daemon/worker/native/clang_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr int kExited = 1 << 8;
constexpr int kAborted = 6;

TEST(ClangReportTest, TheFirstErrorWithItsPlaceInTheSource) {
  const CompileFailure failure = ReadClangFailure(
      "kernel.cl:2:9: warning: unused variable 'a' [-Wunused]\n"
      "  // kernel.cl:1:1: error: this is quoted\n"
      "kernel.cl:12:5: error: use of undeclared identifier 'q'\n"
      "1 warning and 1 error generated.\n",
      "else");
  EXPECT_EQ(failure.code, absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(failure.deterministic);
  EXPECT_EQ(failure.message, "use of undeclared identifier 'q'");
  EXPECT_EQ(failure.line, 12);
  EXPECT_EQ(failure.column, 5);
  EXPECT_THAT(failure.output, HasSubstr("1 warning and 1 error"));
}

TEST(ClangReportTest, AnErrorInAHeaderNamesTheHeader) {
  const CompileFailure failure =
      ReadClangFailure("lib/a.h:3:2: fatal error: 'b.h' file not found\n", "else");
  EXPECT_EQ(failure.message, "lib/a.h:3:2: fatal error: 'b.h' file not found");
  EXPECT_EQ(failure.line, 0);
}

TEST(ClangReportTest, AnErrorWithoutAPlaceIsTheSourcesToo) {
  const CompileFailure failure =
      ReadClangFailure("fatal error: error in backend: cannot select\n", "else");
  EXPECT_EQ(failure.message, "error in backend: cannot select");
  EXPECT_TRUE(failure.deterministic);
}

TEST(ClangReportTest, ACrashIsUndecided) {
  const CompileFailure failure = ReadClangFailure(
      "Stack dump:\nclang: error: clang frontend command failed with exit code 134\n", "else");
  EXPECT_EQ(failure.code, absl::StatusCode::kInternal);
  EXPECT_FALSE(failure.deterministic);
  EXPECT_EQ(failure.message, "else");
}

TEST(ClangReportTest, AFullDiskIsUndecidedThoughClangCallsItAnError) {
  EXPECT_FALSE(ReadClangFailure(
                   "fatal error: error in backend: IO failure: No space left on device\n", "else")
                   .deterministic);
}

TEST(ClangReportTest, WhatTheTranslatorNamesInTwoLinesIsOneMessage) {
  const CompileFailure failure =
      ReadSpirvFailure("llvm-spirv", kExited,
                       "InvalidFunctionCall: Unexpected llvm intrinsic:\n"
                       " llvm.frameaddress.p0i8 [Src: ./lib/SPIRV/SPIRVWriter.cpp:3837 false ]\n",
                       "else");
  EXPECT_TRUE(failure.deterministic);
  EXPECT_EQ(failure.message,
            "llvm-spirv refuses what clang made of the source: InvalidFunctionCall: Unexpected "
            "llvm intrinsic: llvm.frameaddress.p0i8");
}

TEST(ClangReportTest, ATranslatorThatDiesOrIsSilentDecidesNothing) {
  EXPECT_FALSE(ReadSpirvFailure("llvm-spirv", kAborted, "LLVM ERROR", "else").deterministic);
  EXPECT_FALSE(ReadSpirvFailure("spirv-val", kExited, "", "else").deterministic);
}

}  // namespace
}  // namespace kiln
