#include "client/cli/output/file_names.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace kiln::cli {
namespace {

bool IsSafeFileName(const std::string& name) {
  return !name.empty() && name.size() <= 150 && name.front() != '.' && name.front() != '-' &&
         name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
             "_-.%~") == std::string::npos;
}

TEST(SafeFileName, OrdinaryNamesStay) {
  for (const std::string name : {"softmax", "matmul_128x64", "k.1", "a-b", "0"}) {
    EXPECT_EQ(SafeFileName(name), name);
  }
}

TEST(SafeFileName, EscapesEveryOtherByte) {
  EXPECT_EQ(SafeFileName(""), "~empty");
  EXPECT_EQ(SafeFileName("../x"), "%2E.%2Fx");
  EXPECT_EQ(SafeFileName("a/b"), "a%2Fb");
  EXPECT_EQ(SafeFileName("-rf"), "%2Drf");
  EXPECT_EQ(SafeFileName("~empty"), "%7Eempty");
  EXPECT_EQ(SafeFileName("50%"), "50%25");
  EXPECT_EQ(SafeFileName(std::string("\0", 1)), "%00");
  EXPECT_EQ(SafeFileName("\xC3\xA4"), "%C3%A4");
}

TEST(SafeFileName, LongNamesAreCutAndStayApart) {
  const std::string one(300, 'x');
  EXPECT_TRUE(IsSafeFileName(SafeFileName(one)));
  EXPECT_NE(SafeFileName(one), SafeFileName(one + "y"));
  EXPECT_EQ(SafeFileName(one), SafeFileName(one));
  EXPECT_EQ(SafeFileName(std::string(120, 'x')), std::string(120, 'x'));
  // Never in the middle of an escape.
  for (size_t length = 30; length < 60; ++length) {
    const std::string safe = SafeFileName(std::string(length % 3, 'x') + std::string(length, '/'));
    const size_t escape = safe.rfind('%');
    const size_t tilde = safe.find('~');
    if (tilde != std::string::npos) {
      EXPECT_EQ(escape + 3, tilde) << safe;
    }
  }
}

TEST(SafeFileName, HostileNamesAreSafeAndDistinct) {
  std::vector<std::string> names = {"",  ".",   "..",   "/",     "//",       "\\",    "~",
                                    "%", "%2F", "a\nb", "a\tb",  "\x1b[31m", "con",   "nul.",
                                    " ", "a ",  " a",   "$(id)", "`id`",     "a;b",   "a|b",
                                    "*", "?",   "\"",   "'",     "\x7f",     "index", "INDEX"};
  std::minstd_rand random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string name;
    const size_t length = random() % 400;
    for (size_t j = 0; j < length; ++j) name += static_cast<char>(random() % 256);
    names.push_back(name);
  }
  std::set<std::string> safe;
  for (const std::string& name : names) {
    EXPECT_TRUE(IsSafeFileName(SafeFileName(name))) << SafeFileName(name);
    safe.insert(SafeFileName(name));
  }
  EXPECT_EQ(safe.size(), std::set<std::string>(names.begin(), names.end()).size());
}

TEST(FileNames, RepeatedNamesAreNumbered) {
  FileNames names("index");
  EXPECT_EQ(names.For("k"), "k");
  EXPECT_EQ(names.For("k"), "k~2");
  EXPECT_EQ(names.For("k~2"), "k%7E2");
  EXPECT_EQ(names.For("k"), "k~3");
  EXPECT_EQ(names.For("index"), "index~2");
}

}  // namespace
}  // namespace kiln::cli
