#include "daemon/policy/same_code.h"

#include <gtest/gtest.h>

#include "tests/unit/policy/small_elf.h"

namespace kiln {
namespace {

std::vector<SmallSection> SomeSections() {
  return {{".debug_line", "12:00"},
          {".rela.debug_frame", "one"},
          {".nv_debug_line_sass", "12:00"},
          {".nv.merc.rela.debug_line", "one"},
          {".text.k", "code", SHF_ALLOC | SHF_EXECINSTR},
          {".nv.info", "registers"}};
}

// The first section that has this name with other content.
std::string With(const std::string& name, const std::string& content) {
  std::vector<SmallSection> sections = SomeSections();
  for (SmallSection& each : sections) {
    if (each.name == name) each.content = content;
  }
  return MakeSmallElf(sections);
}

TEST(SameCodeTest, IgnoresDebugSections) {
  const std::string one = MakeSmallElf(SomeSections());
  EXPECT_TRUE(HaveSameCode(one, one));
  for (const char* name :
       {".debug_line", ".rela.debug_frame", ".nv_debug_line_sass", ".nv.merc.rela.debug_line"}) {
    EXPECT_TRUE(HaveSameCode(one, With(name, "longer than it was"))) << name;
  }
}

TEST(SameCodeTest, ComparesEveryOtherSection) {
  const std::string one = MakeSmallElf(SomeSections());
  for (const char* name : {".text.k", ".nv.info"}) {
    EXPECT_FALSE(HaveSameCode(one, With(name, "other"))) << name;
  }
  auto more = SomeSections();
  more.push_back({".debug_abbrev", ""});
  EXPECT_FALSE(HaveSameCode(one, MakeSmallElf(more)));
}

TEST(SameCodeTest, ComparesLoadedSectionsOfAnyName) {
  const auto make = [](const std::string& content) {
    return MakeSmallElf({{".debug_line", content, SHF_ALLOC}});
  };
  EXPECT_FALSE(HaveSameCode(make("one"), make("two")));
}

TEST(SameCodeTest, ComparesHeaders) {
  const std::string one = MakeSmallElf(SomeSections());
  std::string other = one;
  other[offsetof(Elf64_Ehdr, e_flags)] = 1;
  EXPECT_FALSE(HaveSameCode(one, other));
}

TEST(SameCodeTest, TruncatedFilesAreNotTheSame) {
  const std::string whole = MakeSmallElf(SomeSections());
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    EXPECT_FALSE(HaveSameCode(part, part)) << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0xff);
    (void)HaveSameCode(flipped, whole);
    (void)HaveSameCode(flipped, flipped);
  }
  EXPECT_FALSE(HaveSameCode("text", "text"));
}

}  // namespace
}  // namespace kiln
