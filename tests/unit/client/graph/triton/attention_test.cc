#include "client/graph/emit/triton/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/graph/emit/triton/triton_emitter.h"
#include "client/graph/program/program_builder.h"

namespace kiln::graph::triton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kWidth = 16;
constexpr int64_t kKeys = 32;

enum class Score { kMaskedByPosition, kMaskedByItself };

// 32 queries and keys of 16 columns.
class AttentionMaker {
 public:
  LoopProgram Make(Score kind, bool gives_weights) {
    const int query = make_.AxisAt(make_.AddOuterAxis(kKeys));
    const int column = make_.AxisAt(make_.AddOuterAxis(kWidth));
    const int width_axis = make_.AddInnerAxis(kWidth);
    const int keys_axis = make_.AddInnerAxis(kKeys);
    const int width = make_.AxisAt(width_axis);
    const int key = make_.AxisAt(keys_axis);
    const int q = Element("q", query, width);
    const int k = Element("k", key, width);
    const int v = Element("v", key, column);
    const int products =
        make_.Reduce(Reduction::kSum, make_.Binary(Opcode::kMultiply, q, k), {width_axis});
    const int scale = make_.Constant(DType::kF32, 0.25);
    const int scaled = make_.Binary(Opcode::kMultiply, products, scale);
    const int is_seen = kind == Score::kMaskedByItself
                            ? make_.Binary(Opcode::kLess, scaled, scale)
                            : make_.Binary(Opcode::kLessOrEqual, key, query);
    const int score = make_.Select(is_seen, scaled, make_.Constant(DType::kF32, -INFINITY));
    const int largest = make_.Reduce(Reduction::kMaximum, score, {keys_axis});
    const int difference = make_.Binary(Opcode::kSubtract, score, largest);
    const int weight = make_.Unary(Opcode::kExponential, difference);
    const int total = make_.Reduce(Reduction::kSum, weight, {keys_axis});
    const int weighted =
        make_.Reduce(Reduction::kSum, make_.Binary(Opcode::kMultiply, weight, v), {keys_axis});
    make_.Store(make_.AddOutput("y", DType::kF32), At(query, kWidth, column),
                make_.Binary(Opcode::kDivide, weighted, total));
    if (gives_weights) {
      make_.Store(make_.AddOutput("weights", DType::kF32), At(query, kKeys, key), weight);
    }
    return std::move(make_).Finish();
  }

 private:
  int At(int row, int64_t columns, int column) {
    const int begin = make_.Binary(Opcode::kMultiply, row, make_.Integer(DType::kI64, columns));
    return make_.Binary(Opcode::kAdd, begin, column);
  }
  int Element(const char* name, int row, int column) {
    const int buffer = make_.AddInput(name, DType::kF16);
    return make_.Cast(DType::kF32, make_.Load(buffer, At(row, kWidth, column)));
  }

  ProgramBuilder make_{"kernel"};
};

TEST(AttentionFinderTest, ScoresAreScaledLateWhereNothingElseSeesThem) {
  const auto scaled = [](Score kind) {
    const auto found = FindAttention(AttentionMaker().Make(kind, false), {});
    EXPECT_TRUE(found.has_value());
    return found.has_value() && found->scaled.has_value();
  };
  EXPECT_TRUE(scaled(Score::kMaskedByPosition));
  EXPECT_FALSE(scaled(Score::kMaskedByItself));
}

TEST(AttentionFinderTest, AttentionThatGivesItsWeightsIsEmittedWithoutTiles) {
  const LoopProgram tiled = AttentionMaker().Make(Score::kMaskedByPosition, false);
  EXPECT_THAT(EmitTriton(tiled, {}).value().text, HasSubstr("tt.dot"));
  const auto kernel = EmitTriton(AttentionMaker().Make(Score::kMaskedByPosition, true), {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT(kernel->text, Not(HasSubstr("tt.dot")));
}

}  // namespace
}  // namespace kiln::graph::triton
