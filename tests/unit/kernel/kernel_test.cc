#include "daemon/kernel/kernel.h"

#include <gtest/gtest.h>

#include "daemon/kernel/toolchain.h"

namespace kiln {
namespace {

TEST(Target, WritesAndReadsTheSameText) {
  for (const char* text : {"cuda:90", "hip:gfx942"})
    EXPECT_EQ(Target::Parse(text)->ToString(), text);
  EXPECT_EQ(*Target::Parse("cuda:90"), (Target{"cuda", "90", 0}));
}

TEST(Target, RefusesOtherForms) {
  for (const char* text : {"", "cuda", "cuda:", ":90", ":", "cuda:90:a"}) {
    EXPECT_EQ(Target::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(SourceKind, HasAName) {
  for (const char* name : {"ttir", "cuda", "ptx"}) {
    EXPECT_EQ(SourceKindName(*ParseSourceKind(name)), name);
  }
  EXPECT_EQ(ParseSourceKind("TTIR").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Toolchain, FindsItsBackends) {
  Toolchain toolchain;
  toolchain.name = "triton";
  toolchain.version = "3.6.0";
  toolchain.backends.resize(2);
  toolchain.backends[1].backend = "hip";
  EXPECT_EQ(toolchain.Name(), "triton==3.6.0");
  EXPECT_EQ(toolchain.FindBackend("hip"), &toolchain.backends[1]);
  EXPECT_EQ(toolchain.FindBackend("cuda"), nullptr);
}

}  // namespace
}  // namespace kiln
