// docs/reference.md is written by hand; this keeps its table true.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "daemon/config/fields.h"

namespace kiln {
namespace {

TEST(Reference, ListsEveryFieldAsTheProgramHasIt) {
  std::stringstream text;
  text << std::ifstream(KILN_REFERENCE_PAGE).rdbuf();
  for (const Field& field : Fields()) {
    const std::string row = fmt::format("| `{}` | `{}` | {} | {} |\n", field.Name(),
                                        field.print(Config()), field.form, field.doc);
    EXPECT_NE(text.str().find(row), std::string::npos) << "docs/reference.md lacks\n" << row;
  }
}

}  // namespace
}  // namespace kiln
