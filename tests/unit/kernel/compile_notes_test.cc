#include "daemon/kernel/compile_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// What these wrote word for word, but for the length of some lines.

TEST(CompileNotesTest, MlirNamesThePassThatFailed) {
  EXPECT_THAT(NotesIn("kernel.ttir:6:7: error: failed to legalize operation 'arith.bitcast'\n"
                      "module {\n  tt.func public @k(%arg0: !tt.ptr<f32>) {\n  }\n}\n"
                      "kernel.ttir:1:1: error: Failures have been detected while processing an "
                      "MLIR pass pipeline\n"
                      "kernel.ttir:1:1: note: Pipeline failed while executing [`Convert` on "
                      "'builtin.module' operation]\n"),
              ElementsAre(CompileNote{"", 1, 1,
                                      "Pipeline failed while executing [`Convert` on "
                                      "'builtin.module' operation]"}));
}

TEST(CompileNotesTest, MlirWritesPlacesInTwoWays) {
  EXPECT_THAT(
      NotesIn("loc(\"kernel.ttir\":3:10): error: 'tt.x' op failed\n"
              "loc(\"/home/me/add.py\":12:5): note: see current operation: %0 = tt.x\n"),
      ElementsAre(CompileNote{"/home/me/add.py", 12, 5, "see current operation: %0 = tt.x"}));
}

TEST(CompileNotesTest, NvrtcSaysWhyEachFunctionDoesNotFit) {
  EXPECT_THAT(NotesIn("kernel.cu(2): error: no instance of overloaded function \"f\" matches\n"
                      "            argument types are: (double)\n"
                      "  __global__ void k(int*p){ f(1.0); }\n"
                      "                            ^\n"
                      "my/a.h(1): note #3326-D: function \"f(char *)\" does not match\n"
                      "  __device__ int f(int*); __device__ int f(char*);\n"
                      "                                         ^\n"
                      "kernel.cu(7): note #3326-D: function \"f(int *)\" does not match\n"
                      "\n1 error detected in the compilation of \"kernel.cu\".\n"),
              ElementsAre(CompileNote{"my/a.h", 1, 0, "function \"f(char *)\" does not match"},
                          CompileNote{"", 7, 0, "function \"f(int *)\" does not match"}));
}

TEST(CompileNotesTest, NvrtcSaysWhatATemplateWasInstantiatedBy) {
  EXPECT_THAT(
      NotesIn("my/a.h(2): error: expression must have class type\n"
              "  template<class T> __device__ int h(T t){ return t.foo(); }\n"
              "                                                  ^\n"
              "          detected during:\n"
              "            instantiation of \"int h(T) [with T=char]\" at line 3\n"
              "            [ 5 instantiation contexts not shown ]\n"
              "            instantiation of \"int g(T) [with T=char]\" at line 2 of kernel.cu\n"
              "\nkernel.cu(9): error: another\n"
              "kernel.cu(8): note #1-D: of the other\n"),
      ElementsAre(CompileNote{"my/a.h", 3, 0, "instantiation of \"int h(T) [with T=char]\""},
                  CompileNote{"", 0, 0, "[ 5 instantiation contexts not shown ]"},
                  CompileNote{"", 2, 0, "instantiation of \"int g(T) [with T=char]\""}));
  EXPECT_THAT(NotesIn("kernel.cu(2): error: no\n"
                      "          detected during instantiation of \"int g(T)\" at line 3\n"),
              ElementsAre(CompileNote{"", 3, 0, "instantiation of \"int g(T)\""}));
}

// Any line of a source may stand among the compiler's, with blanks in front of it.
TEST(CompileNotesTest, ALineOfTheSourceIsNoWordOfNvrtcs) {
  EXPECT_THAT(NotesIn("kernel.cu(3): error: no instance of overloaded function \"f\" matches\n"
                      "    f(1.0); } // see(7): error: handle\n"
                      "    ^\n"
                      "kernel.cu(1): note #3326-D: function \"f(char *)\" does not match\n"),
              ElementsAre(CompileNote{"", 1, 0, "function \"f(char *)\" does not match"}));
  EXPECT_THAT(
      NotesIn("kernel.cu(1): error: identifier \"nothing\" is undefined\n"
              "  __global__ void k(int* p) { *p = nothing; } // see foo.h(12): note: hello\n"
              "                                   ^\n"
              "\t// see foo.h(12): note: hello\n"),
      IsEmpty());
}

TEST(CompileNotesTest, NotesOfWarningsAreNone) {
  EXPECT_THAT(NotesIn("kernel.cu(2): warning #549-D: variable \"a\" is used\n"
                      "          detected during instantiation of \"int g(T)\" at line 3\n"
                      "kernel.cu(4): note #1-D: here\n"),
              IsEmpty());
}

TEST(CompileNotesTest, PtxasHasNone) {
  EXPECT_THAT(NotesIn("ptxas kernel.ptx, line 35; error   : Not a name of any known instruction\n"
                      "ptxas fatal   : Ptx assembly aborted due to errors\n"),
              IsEmpty());
}

TEST(CompileNotesTest, BoundsNumberAndSizeOfNotes) {
  std::string output = "kernel.cu(1): error: x\n";
  for (int i = 0; i < 100; ++i) output += "kernel.cu(1): note: " + std::string(5000, 'n') + "\n";
  const auto notes = NotesIn(output);
  ASSERT_EQ(notes.size(), kCompileNotesMax);
  EXPECT_EQ(notes[0].message.size(), kCompileNoteBytesMax);
  EXPECT_THAT(NotesIn("kernel.cu(99999999999): error: x\na(4294967296): note: y\n"),
              ElementsAre(CompileNote{"a", 0, 0, "y"}));
  for (const char* text :
       {"", "\n", ": note: ", "error", "detected during:", "(1): note",
        "loc(: error: \nloc(\": note: x", "    detected during:\n      at line "}) {
    EXPECT_THAT(NotesIn(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace kiln
