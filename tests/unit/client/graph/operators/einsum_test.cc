// Expected elements are those of ONNX's reference evaluator.
#include <gmock/gmock.h>

#include "tests/testing/graph/numbered_tensor.h"
#include "tests/testing/graph/single_operation.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SingleOperation Einsum(const std::string& equation) {
  return SingleOperation("Einsum", {{"equation", equation}});
}

TEST(EinsumTest, LabelsThatTheOutputLacksAreSummed) {
  EXPECT_THAT(Einsum("ij, jk -> ki").Input(Numbered({2, 3})).Input(Numbered({3, 2})).Elements(),
              ElementsAre(19, -30, 6, 24));
  EXPECT_THAT(Einsum("ab,b,a->")
                  .Input(Numbered({2, 3}))
                  .Input(Numbered({3}))
                  .Input(Numbered({2}))
                  .Elements(),
              ElementsAre(-199));
}

TEST(EinsumTest, AnEllipsisIsKeptWhereNoOutputIsGiven) {
  SingleOperation product = Einsum("...ij,...jk");
  product.Input(Numbered({2, 2, 3})).Input(Numbered({2, 3, 2}));
  EXPECT_EQ(product.Shape(), "[2, 2, 2]");
  EXPECT_THAT(product.Elements(), ElementsAre(19, 6, -30, 24, 20, 20, 21, 22));
}

TEST(EinsumTest, DimensionsOfAnEllipsisAreBroadcast) {
  SingleOperation product = Einsum("...i,i->...");
  EXPECT_THAT(product.Input(Numbered({2, 3})).Input({{3}, {1, 0, 0}}).Elements(),
              ElementsAre(-5, 5));
  SingleOperation sum = Einsum("...,...");
  sum.Input({{2, 1}, {1, 2}}).Input({{2}, {10, 20}});
  EXPECT_EQ(sum.Shape(), "[2, 2]");
  EXPECT_THAT(sum.Elements(), ElementsAre(10, 20, 20, 40));
}

TEST(EinsumTest, ALabelTwiceInATermIsTheDiagonal) {
  EXPECT_THAT(Einsum("ii->i").Input(Numbered({3, 3})).Elements(), ElementsAre(-5, 1, -4));
}

TEST(EinsumTest, EquationsThatDoNotFitAreErrors) {
  EXPECT_THAT(Einsum("ij,jk").Input(Numbered({2, 3})).Shape(),
              HasSubstr("needs a term for each input"));
  EXPECT_THAT(Einsum("ijk->i").Input(Numbered({2, 3})).Shape(), HasSubstr("too many labels"));
  EXPECT_THAT(Einsum("ij->k").Input(Numbered({2, 3})).Shape(), HasSubstr("label k"));
  EXPECT_THAT(Einsum("ij,jk").Input(Numbered({2, 3})).Input(Numbered({2, 3})).Shape(),
              HasSubstr("label j has two extents"));
}

}  // namespace
}  // namespace kiln::graph
