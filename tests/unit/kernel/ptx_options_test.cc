#include "daemon/kernel/ptx_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using testing::HasSubstr;

TEST(PtxOptions, KnownFlagsAndTheirValuesPass) {
  for (const char* text :
       {"", "  ", "-O1", "-O=1", "-O 1", "--opt-level=1 --fmad=false", "--opt-level 3 -lineinfo",
        "-maxrregcount=64", "-maxrregcount 64  -w", "--maxntid 128,1,1", "-e _Z3fooPf$1.x",
        "--regAllocOptLevel=2", "-v --warn-on-spills"}) {
    EXPECT_TRUE(CheckPtxOptions(text).ok()) << text;
  }
}

TEST(PtxOptions, RefusesOtherFlags) {
  for (const char* text : {"-ofile",
                           "-o file",
                           "-o=file",
                           "--output-file=x",
                           "--output-file x",
                           "-optf x",
                           "--options-file=x",
                           "-ias x",
                           "--input-as-string=x",
                           "--split-compile=0",
                           "-split-compile 4",
                           "-O1 --split-compile 4",
                           "--gpu-name=sm_80",
                           "-arch sm_80",
                           "--machine=32",
                           "--version",
                           "-h",
                           "--no-such-option",
                           "-",
                           "--",
                           "---fmad=false",
                           "=",
                           "-O12",
                           "-Ofile",
                           "other.ptx",
                           "-w other.ptx",
                           "--fmad=false true",
                           "--entry=/etc/passwd",
                           "--entry /etc/passwd",
                           "--entry=",
                           "--entry=a\tb",
                           "-w=1",
                           "@file",
                           "--entry @file",
                           "--fmad  other.ptx",
                           "-O1\n-ofile",
                           "\t-ofile"}) {
    const absl::Status status = CheckPtxOptions(text);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(Message(status)), HasSubstr("leave it out")) << text;
  }
}

}  // namespace
}  // namespace kiln
