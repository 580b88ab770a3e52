#include "client/graph/emit/triton/ir_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace kiln::graph::triton {
namespace {

using ::testing::HasSubstr;
using Values = IrBuilder::Values;

const Type kFloats{Scalar::kF32, {64}};
const Type kBools{Scalar::kI1, {64}};

TEST(IrBuilderTest, WritesAFunctionWithArgumentsAndOperations) {
  IrBuilder ir("double_it");
  const Value x = ir.Argument("x", PointerTo(Scalar::kF32), 16);
  const Value offsets = ir.MakeRange(0, 64);
  const Value pointers = ir.AddPointer(ir.Splat(x, {64}), offsets);
  const Value loaded = ir.Load(pointers);
  ir.Store(pointers, ir.Binary("arith.addf", loaded, loaded));
  EXPECT_EQ(*ir.Finish(), R"(module {
  tt.func public @double_it(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %1 = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %2 = tt.addptr %1, %0 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %3 = tt.load %2 : tensor<64x!tt.ptr<f32>>
    %4 = arith.addf %3, %3 : tensor<64xf32>
    tt.store %2, %4 : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
)");
}

TEST(IrBuilderTest, WritesLoopsWithWhatTheyCarry) {
  IrBuilder ir("count");
  const Value n = ir.Argument("n", {Scalar::kI64});
  const Value zero = ir.Integer({Scalar::kI64}, 0);
  const Value one = ir.Integer({Scalar::kI64}, 1);
  ir.For(zero, n, one, {zero}, [&](Value index, const Values& carried) {
    return Values{ir.Binary("arith.addi", carried[0], index)};
  });
  EXPECT_THAT(*ir.Finish(),
              HasSubstr("%2 = scf.for %3 = %0 to %n step %1 iter_args(%4 = %0) -> (i64) : i64 {\n"
                        "      %5 = arith.addi %4, %3 : i64\n"
                        "      scf.yield %5 : i64\n"
                        "    }\n"));
}

TEST(IrBuilderTest, WritesInfinityAndNanAsBitsOfTheType) {
  IrBuilder ir("constants");
  ir.Float({Scalar::kF32}, -INFINITY);
  ir.Float({Scalar::kF16, {2}}, INFINITY);
  ir.Float({Scalar::kF64}, std::nan(""));
  ir.Float({Scalar::kF32}, 1e20);
  const std::string text = *ir.Finish();
  EXPECT_THAT(text, HasSubstr("arith.constant 0xFF800000 : f32"));
  EXPECT_THAT(text, HasSubstr("arith.constant dense<0x7C00> : tensor<2xf16>"));
  EXPECT_THAT(text, HasSubstr("arith.constant 0x7FF8000000000000 : f64"));
  EXPECT_THAT(text, HasSubstr("arith.constant 1.0e+20 : f32"));
}

struct Mistake {
  std::string_view name;
  std::string_view message;
  std::function<void(IrBuilder&)> make;
};

class IrBuilderMistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(IrBuilderMistakes, AreFoundBeforeTheTextIsSent) {
  IrBuilder ir("wrong");
  GetParam().make(ir);
  const absl::StatusOr<std::string> text = ir.Finish();
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(GetParam().message));
}

const Mistake kMistakes[] = {
    {"TwoTypes", "arith.addf: operands are tensor<64xf32> and tensor<64xf64>",
     [](IrBuilder& ir) {
       ir.Binary("arith.addf", ir.Float(kFloats, 1), ir.Float({Scalar::kF64, {64}}, 1));
     }},
    {"FloatOperationOfIntegers", "arith.addf: i32 is no operand of it",
     [](IrBuilder& ir) {
       const Value one = ir.Integer({Scalar::kI32}, 1);
       ir.Binary("arith.addf", one, one);
     }},
    {"UnknownOperation", "arith.adds: unknown",
     [](IrBuilder& ir) {
       const Value one = ir.Integer({Scalar::kI32}, 1);
       ir.Binary("arith.adds", one, one);
     }},
    {"NoPowerOfTwo", "every extent of a tensor must be a power of two",
     [](IrBuilder& ir) { ir.MakeRange(0, 48); }},
    {"TooManyElements", "at most 1048576 elements",
     [](IrBuilder& ir) {
       ir.Float({Scalar::kF32, {2048, 1024}}, 0);
     }},
    {"PointerToBool", "bools are i8 in memory",
     [](IrBuilder& ir) { ir.Argument("x", PointerTo(Scalar::kI1)); }},
    {"MaskOfAnotherShape", "tt.load: mask tensor<32xi1> for tensor<64x!tt.ptr<f32>>",
     [](IrBuilder& ir) {
       const Value pointers = ir.Splat(ir.Argument("x", PointerTo(Scalar::kF32)), {64});
       ir.Load(pointers, ir.Integer({Scalar::kI1, {32}}, 1), ir.Float(kFloats, 0));
     }},
    {"StoreOfAnotherType", "tt.store: f64 to !tt.ptr<f32>",
     [](IrBuilder& ir) {
       const Value x = ir.Argument("x", PointerTo(Scalar::kF32));
       ir.Store(x, ir.Float({Scalar::kF64}, 0));
     }},
    {"ValueOfAClosedRegion", "is used outside the region that computes it",
     [](IrBuilder& ir) {
       const Value one = ir.Integer({Scalar::kI64}, 1);
       Value inside;
       ir.For(one, one, one, {}, [&](Value index, const Values&) {
         inside = ir.Binary("arith.addi", index, one);
         return Values{};
       });
       ir.Binary("arith.addi", inside, one);
     }},
    {"YieldOfAnotherType", "scf.for: the body yields (i64) instead of (tensor<64xf32>)",
     [](IrBuilder& ir) {
       const Value one = ir.Integer({Scalar::kI64}, 1);
       ir.For(one, one, one, {ir.Float(kFloats, 0)},
              [](Value index, const Values&) { return Values{index}; });
     }},
    {"ConditionThatIsATensor", "scf.if: the condition is tensor<64xi1> instead of i1",
     [](IrBuilder& ir) {
       const auto nothing = [] { return Values{}; };
       ir.If(ir.Integer(kBools, 1), {}, nothing, nothing);
     }},
    {"ReductionOfAMissingAxis", "tt.reduce: (tensor<64xf32>) have no axis 1 to reduce together",
     [](IrBuilder& ir) {
       ir.Reduce({ir.Float(kFloats, 0)}, 1, [](const Values& left, const Values&) { return left; });
     }},
    {"NarrowingExtension", "arith.extsi: i64 to i32",
     [](IrBuilder& ir) { ir.Cast("arith.extsi", ir.Integer({Scalar::kI64}, 1), Scalar::kI32); }},
    {"DotOfShapesThatDoNotMeet",
     "tt.dot: tensor<16x32xf16> * tensor<16x32xf16> -> tensor<16x32xf32>",
     [](IrBuilder& ir) {
       const Value x = ir.Float({Scalar::kF16, {16, 32}}, 0);
       ir.Dot(x, x, ir.Float({Scalar::kF32, {16, 32}}, 0));
     }},
    {"AtomicOfASmallInteger", "tt.atomic_rmw: add of i8 at !tt.ptr<i8>",
     [](IrBuilder& ir) {
       const Value x = ir.Argument("x", PointerTo(Scalar::kI8));
       ir.AtomicRmw("add", x, ir.Integer({Scalar::kI8}, 1));
     }},
    {"ValueThatIsNone", "an operand is no value of this kernel",
     [](IrBuilder& ir) { ir.Unary("math.exp", Value{}); }},
};

INSTANTIATE_TEST_SUITE_P(All, IrBuilderMistakes, ::testing::ValuesIn(kMistakes),
                         [](const auto& mistake) { return std::string(mistake.param.name); });

}  // namespace
}  // namespace kiln::graph::triton
