#include "storage/base/units.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using std::chrono::milliseconds;

TEST(Units, SizesInEveryUnit) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("512"), 512u);
  EXPECT_EQ(*ParseSize("512B"), 512u);
  EXPECT_EQ(*ParseSize("64KiB"), 65536u);
  EXPECT_EQ(*ParseSize(" 10 GiB "), uint64_t{10} << 30);
  EXPECT_EQ(*ParseSize("1.5GiB"), uint64_t{3} << 29);
  EXPECT_EQ(*ParseSize("2TiB"), uint64_t{1} << 41);
  EXPECT_EQ(*ParseSize("2T"), uint64_t{1} << 41);
  EXPECT_EQ(*ParseSize("500M"), uint64_t{500} << 20);
}

TEST(Units, SizesThatMeanTwoThingsOrNothing) {
  for (const char* text :
       {"", "GiB", "10GB", "10g", "10X", "10iB", "inf", "nan", "ten", "-1", "1..5GiB", "1e3MiB",
        "0x10", "10GiB2", "18446744073709551616", "99999999999TiB", "."}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
  EXPECT_EQ(Message(ParseSize("10GB").status()),
            "expected a size in B, KiB, MiB, GiB or TiB (K, M, G and T for short), such as "
            "\"10GiB\"; GB means two things");
}

TEST(Units, SizesArePrintedInTheLargestExactUnit) {
  EXPECT_EQ(FormatSize(0), "0B");
  EXPECT_EQ(FormatSize(1), "1B");
  EXPECT_EQ(FormatSize(uint64_t{3} << 29), "1536MiB");
  EXPECT_EQ(FormatSize(uint64_t{10} << 30), "10GiB");
}

TEST(Units, Durations) {
  EXPECT_EQ(*ParseDuration("250ms"), milliseconds(250));
  EXPECT_EQ(*ParseDuration("300s"), milliseconds(300'000));
  EXPECT_EQ(*ParseDuration("1.5min"), milliseconds(90'000));
  EXPECT_EQ(*ParseDuration("5m"), milliseconds(300'000));
  EXPECT_EQ(*ParseDuration("2h"), milliseconds(7'200'000));
  for (const char* text : {"", "300", "5M", "1d", "-1s", "9999999999999h"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
  EXPECT_EQ(FormatDuration(milliseconds(90'000)), "90s");
  EXPECT_EQ(FormatDuration(milliseconds(300'000)), "5min");
  EXPECT_EQ(FormatDuration(milliseconds(7'200'000)), "2h");
  EXPECT_EQ(FormatDuration(milliseconds(0)), "0ms");
}

TEST(Units, FileModesAreOctal) {
  EXPECT_EQ(*ParseFileMode("0660"), 0660u);
  EXPECT_EQ(*ParseFileMode("600"), 0600u);
  for (const char* text : {"", "0o660", "888", "1777", "rw-rw----", "-1"}) {
    EXPECT_FALSE(ParseFileMode(text).ok()) << text;
  }
}

}  // namespace
}  // namespace kiln
