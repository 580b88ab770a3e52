#include <gmock/gmock.h>

#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DeterminantTest, EachMatrixOfABatchHasOne) {
  const OperationTensor pair = {{2, 2, 2}, {1, 2, 3, 4, 0, 5, 1, 7}};
  EXPECT_EQ(SingleOperation("Det").Input(pair).Shape(), "[2]");
  EXPECT_THAT(SingleOperation("Det").Input(pair).Elements(), ElementsAre(-2, -5));
}

TEST(DeterminantTest, AZeroOnTheDiagonalNeedsNoPivot) {
  const OperationTensor cyclic = {{3, 3}, {0, 2, 0, 0, 0, 3, 5, 0, 0}};
  EXPECT_THAT(SingleOperation("Det").Input(cyclic).Elements(), ElementsAre(30));
}

// Ones above 2 on the diagonal of n rows: n + 1.
TEST(DeterminantTest, ATridiagonalMatrixOfEightRows) {
  OperationTensor matrix{{8, 8}, std::vector<double>(64, 0)};
  for (size_t i = 0; i < 8; ++i) {
    matrix.elements[i * 8 + i] = 2;
    if (i > 0) matrix.elements[i * 8 + i - 1] = matrix.elements[(i - 1) * 8 + i] = 1;
  }
  EXPECT_THAT(SingleOperation("Det").Input(matrix).Elements(), ElementsAre(9));
}

TEST(DeterminantTest, LargeAndOblongMatricesAreRefused) {
  EXPECT_THAT(SingleOperation("Det").Input({{2, 3}, {1, 2, 3, 4, 5, 6}}).Shape(),
              HasSubstr("takes square matrices"));
  EXPECT_THAT(SingleOperation("Det").Input({{9, 9}, std::vector<double>(81, 1)}).Shape(),
              HasSubstr("more than 8 rows"));
}

}  // namespace
}  // namespace kiln::graph
