#include "daemon/worker/native/ptx_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Spelled(const PtxEntry& entry) {
  std::vector<std::string> spelled;
  for (const KernelParameter& each : entry.parameters) {
    spelled.push_back(each.type + " " + each.name);
  }
  return spelled;
}

TEST(PtxTextTest, EntriesWithTheirParametersAndDirectives) {
  const auto entries = PtxEntries(R"(
.version 8.0
.target sm_80
.address_size 64
.func (.reg .b32 r) helper(.param .b32 a) { ret; }
.visible .entry _Z3addPf(
	.param .u64 .ptr .global .align 16 _Z3addPf_param_0,
	.param .align 64 .b8 map[128],
	.param .f32 x
)
.maxntid 256
.reqntid 128, 2, 1
.reqnctapercluster 2
.minnctapersm 1
{
	.reg .b32 %r<3>;
$L__BB0_1:
	ld.param.u64 %rd1, [_Z3addPf_param_0];
	ret;
}
.entry other() { ret; }
)");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "_Z3addPf");
  EXPECT_THAT(Spelled(entries[0]), ElementsAre("u64 _Z3addPf_param_0", "b8[128] map", "f32 x"));
  EXPECT_EQ(entries[0].required_threads, (Extent{128, 2, 1}));
  EXPECT_EQ(entries[0].maximum_threads, (Extent{256, 1, 1}));
  EXPECT_EQ(entries[0].cluster, (Extent{2, 1, 1}));
  EXPECT_EQ(entries[1].name, "other");
  EXPECT_THAT(entries[1].parameters, IsEmpty());
  EXPECT_EQ(entries[1].required_threads, std::nullopt);
}

TEST(PtxTextTest, IgnoresCommentsAndStrings) {
  EXPECT_THAT(PtxEntries("// .entry a() { }\n/* .entry b() {\n} */ .file 1 \".entry c() {\""),
              IsEmpty());
}

TEST(PtxTextTest, TheArchitectureThatItIsWrittenFor) {
  EXPECT_EQ(PtxArchitecture("// .target sm_80\n.version 8.0\n.target sm_90a, debug\n"), "90a");
  EXPECT_EQ(PtxArchitecture(".version 8.0\n.target texmode_unified, sm_75\n"), "75");
  for (const char* text : {"", ".target", ".target ,", ".target texmode_unified\n.entry sm_90"}) {
    EXPECT_EQ(PtxArchitecture(text), "") << text;
  }
}

TEST(PtxTextTest, IgnoresDeclarations) {
  EXPECT_THAT(PtxEntries(".extern .entry a(.param .u32 x);"), IsEmpty());
}

TEST(PtxTextTest, ReadsMalformedTextToItsEnd) {
  for (const char* text : {"", ".entry", ".entry a", ".entry a(", ".entry a(.param .u64", "/*",
                           "\"", ".entry a() .reqntid", ".entry a() .reqntid 1,", "\xff\xfe",
                           ".entry a() .reqntid 99999999999999999999, 1"}) {
    EXPECT_THAT(PtxEntries(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace kiln
