#include "client/cli/output/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace kiln::cli {
namespace {

class TableTest : public ::testing::Test {
 protected:
  Table Make() { return Table(console_, {{"NAME"}, {"MS", true}, {"KEY"}}); }

  std::ostringstream out_;
  Console console_{out_, out_};
};

TEST_F(TableTest, AlignsForPeople) {
  console_.aligned = true;
  Table table = Make();
  table.AddRow({std::string("softmax"), std::string("1.5"), std::string("ab")});
  table.AddRow({std::string("k"), std::string("120.0"), std::string("")});
  EXPECT_EQ(out_.str(), "");
  table.Flush();
  EXPECT_EQ(out_.str(),
            "NAME        MS  KEY\n"
            "softmax    1.5  ab\n"
            "k        120.0\n");
}

TEST_F(TableTest, SeparatesWithTabsForPipes) {
  Table table = Make();
  table.AddRow({std::string("softmax"), std::string("1.5"), std::string("ab")});
  EXPECT_EQ(out_.str(), "softmax\t1.5\tab\n");
}

TEST_F(TableTest, AnEmptyTableIsNothing) {
  console_.aligned = true;
  Table table = Make();
  table.Flush();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(TableTest, CountsColumnsNotBytes) {
  console_.aligned = true;
  Table table(console_, {{"N"}, {"X"}});
  table.AddRow({std::string("\xC3\xA4\xC3\xA4"), std::string("1")});
  table.AddRow({std::string("abc"), std::string("2")});
  table.Flush();
  EXPECT_EQ(out_.str(), "N    X\n\xC3\xA4\xC3\xA4   1\nabc  2\n");
}

TEST_F(TableTest, ANameCannotForgeARowOrMoveTheCursor) {
  Table table = Make();
  table.AddRow({std::string("a\nb\t\x1b[2J\xC2\x9B\u202E\u2066é\u2009"), std::string("1"),
                std::string("k")});
  EXPECT_EQ(out_.str(),
            "a\\x0ab\\x09\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae\\xe2\\x81\\xa6é\u2009\t1\tk\n");
}

TEST_F(TableTest, ALongTableFlowsAfterItsFirstRows) {
  console_.aligned = true;
  Table table = Make();
  for (size_t i = 0; i < Table::kRowsHeldBack; ++i) {
    table.AddRow({std::string("k"), std::string("1"), std::string("a")});
  }
  const size_t before = out_.str().size();
  EXPECT_GT(before, 0u);
  table.AddRow({std::string("k"), std::string("1"), std::string("a")});
  EXPECT_GT(out_.str().size(), before);
}

TEST_F(TableTest, ALongCellDoesNotWidenOtherRows) {
  console_.aligned = true;
  Table table(console_, {{"N"}, {"X"}});
  table.AddRow({std::string(200, 'n'), std::string("1")});
  table.AddRow({std::string("k"), std::string("2")});
  table.Flush();
  EXPECT_NE(out_.str().find("\nk" + std::string(61, ' ') + "2\n"), std::string::npos);
}

TEST_F(TableTest, StylesDoNotCountAsColumns) {
  console_.aligned = true;
  console_.color = true;
  Table table(console_, {{"N"}, {"X"}});
  table.AddRow({Cell("hit", Style::kGood), std::string("1")});
  table.Flush();
  EXPECT_NE(out_.str().find("\x1b[32mhit\x1b[0m  1\n"), std::string::npos);
}

}  // namespace
}  // namespace kiln::cli
