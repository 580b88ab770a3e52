#include "client/cli/output/format.h"

#include <gtest/gtest.h>

namespace kiln::cli {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Format, Bytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(10ull << 30), "10.0 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16384.0 PiB");
}

TEST(Format, Durations) {
  EXPECT_EQ(FormatDuration(microseconds(85)), "85 µs");
  EXPECT_EQ(FormatDuration(microseconds(12'340)), "12.3 ms");
  EXPECT_EQ(FormatDuration(milliseconds(4560)), "4.56 s");
  EXPECT_EQ(FormatDuration(seconds(200)), "3 min 20 s");
  EXPECT_EQ(FormatDuration(hours(26)), "26 h 0 min");
}

TEST(Format, Ages) {
  EXPECT_EQ(FormatAge(0, 1000), "never");
  EXPECT_EQ(FormatAge(1000, 6000), "5 s");
  EXPECT_EQ(FormatAge(1000, 181'000), "3 min");
  EXPECT_EQ(FormatAge(1, 47 * 3'600'000ll), "46 h");
  EXPECT_EQ(FormatAge(1, 97 * 3'600'000ll), "4 d");
  // A clock that was set back.
  EXPECT_EQ(FormatAge(5000, 1000), "0 s");
}

TEST(Format, Counts) {
  EXPECT_EQ(FormatCount(0, "file"), "0 files");
  EXPECT_EQ(FormatCount(1, "file"), "1 file");
  EXPECT_EQ(FormatCount(2, "file"), "2 files");
}

TEST(Format, Hex) { EXPECT_EQ(Hex(std::string("\x00\xff\x0a", 3)), "00ff0a"); }

}  // namespace
}  // namespace kiln::cli
