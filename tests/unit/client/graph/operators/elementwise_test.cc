// Each row of the operator table that has an expression, against <cmath>.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <string>

#include "client/graph/operators/op_table.h"
#include "tests/unit/client/graph/operators/single_operation.h"

namespace kiln::graph::elementwise_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
double Gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

using One = std::function<double(double)>;
using Two = std::function<double(double, double)>;

const std::map<std::string, One> kOneInput = {
    {"Identity", [](double x) { return x; }},
    {"Dropout", [](double x) { return x; }},
    {"Abs", [](double x) { return std::fabs(x); }},
    {"Neg", [](double x) { return -x; }},
    {"Sign", [](double x) { return x > 0   ? 1
                                   : x < 0 ? -1
                                           : 0; }},
    {"Reciprocal", [](double x) { return 1 / x; }},
    {"Square", [](double x) { return x * x; }},
    {"Cube", [](double x) { return x * x * x; }},
    {"Max", [](double x) { return x; }},
    {"Min", [](double x) { return x; }},
    {"Sum", [](double x) { return x; }},
    {"Mean", [](double x) { return x; }},
    {"MultiplyN", [](double x) { return x; }},
    {"Clip", [](double x) { return x; }},
    {"FastGelu", GeluTanh},
    {"Sqrt", [](double x) { return std::sqrt(x); }},
    {"Rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"Exp", [](double x) { return std::exp(x); }},
    {"Exp2", [](double x) { return std::exp2(x); }},
    {"Expm1", [](double x) { return std::expm1(x); }},
    {"Log", [](double x) { return std::log(x); }},
    {"Log2", [](double x) { return std::log2(x); }},
    {"Log10", [](double x) { return std::log10(x); }},
    {"Log1p", [](double x) { return std::log1p(x); }},
    {"Logit", [](double x) { return std::log(x / (1 - x)); }},
    {"Sin", [](double x) { return std::sin(x); }},
    {"Cos", [](double x) { return std::cos(x); }},
    {"Tan", [](double x) { return std::tan(x); }},
    {"Asin", [](double x) { return std::asin(x); }},
    {"Acos", [](double x) { return std::acos(x); }},
    {"Atan", [](double x) { return std::atan(x); }},
    {"Sinh", [](double x) { return std::sinh(x); }},
    {"Cosh", [](double x) { return std::cosh(x); }},
    {"Tanh", [](double x) { return std::tanh(x); }},
    {"Asinh", [](double x) { return std::asinh(x); }},
    {"Acosh", [](double x) { return std::acosh(x); }},
    {"Atanh", [](double x) { return std::atanh(x); }},
    {"Sinc",
     [](double x) { return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }},
    {"Deg2rad", [](double x) { return x * std::numbers::pi / 180; }},
    {"Rad2deg", [](double x) { return x * 180 / std::numbers::pi; }},
    {"Erf", [](double x) { return std::erf(x); }},
    {"Floor", [](double x) { return std::floor(x); }},
    {"Ceil", [](double x) { return std::ceil(x); }},
    {"Round", [](double x) { return std::nearbyint(x); }},
    {"Trunc", [](double x) { return std::trunc(x); }},
    {"Frac", [](double x) { return x - std::trunc(x); }},
    {"Relu", [](double x) { return std::fmax(x, 0); }},
    {"Relu6", [](double x) { return std::fmin(std::fmax(x, 0), 6); }},
    {"LeakyRelu", [](double x) { return x < 0 ? 0.01 * x : x; }},
    {"ThresholdedRelu", [](double x) { return x > 1 ? x : 0; }},
    {"Elu", [](double x) { return x < 0 ? std::expm1(x) : x; }},
    {"Celu", [](double x) { return x < 0 ? std::expm1(x) : x; }},
    {"Selu",
     [](double x) {
       return 1.05070102214813232421875 * (x > 0 ? x : 1.67326319217681884765625 * std::expm1(x));
     }},
    {"Sigmoid", Sigmoid},
    {"LogSigmoid", [](double x) { return -Softplus(-x); }},
    {"HardSigmoid", [](double x) { return std::fmax(0, std::fmin(1, 0.2 * x + 0.5)); }},
    {"HardSwish", [](double x) { return x * std::fmax(0, std::fmin(1, x / 6 + 0.5)); }},
    {"HardTanh", [](double x) { return std::fmax(-1, std::fmin(1, x)); }},
    {"RationalTanh",
     [](double x) {
       const double t = std::fabs(2 * x / 3);
       return 1.7159 * std::copysign(1 - 1 / (1 + t + t * t + 1.41645 * std::pow(t, 4)), x);
     }},
    {"RectifiedTanh", [](double x) { return std::fmax(0, std::tanh(x)); }},
    {"Swish", [](double x) { return x * Sigmoid(x); }},
    {"QuickGelu", [](double x) { return x * Sigmoid(1.702 * x); }},
    {"Gelu", Gelu},
    {"Mish", [](double x) { return x * std::tanh(Softplus(x)); }},
    {"Softplus", Softplus},
    {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
    {"Softshrink", [](double x) { return x > 0.5    ? x - 0.5
                                         : x < -0.5 ? x + 0.5
                                                    : 0; }},
    {"Hardshrink", [](double x) { return std::fabs(x) <= 0.5 ? 0 : x; }},
    {"Tanhshrink", [](double x) { return x - std::tanh(x); }},
    {"Shrink", [](double x) { return std::fabs(x) <= 0.5 ? 0 : x; }},
    {"Step", [](double x) { return x > 0 ? 1 : 0; }},
    {"Affine", [](double x) { return x; }},
    {"ScaledTanh", [](double x) { return std::tanh(x); }},
    {"NanToNum", [](double x) { return x; }},
    {"IsNaN", [](double) { return 0; }},
    {"IsInf", [](double) { return 0; }},
    {"IsFinite", [](double) { return 1; }},
};

const std::map<std::string, Two> kTwoInputs = {
    {"Add", [](double x, double y) { return x + y; }},
    {"Sub", [](double x, double y) { return x - y; }},
    {"ReverseSubtract", [](double x, double y) { return y - x; }},
    {"Mul", [](double x, double y) { return x * y; }},
    {"Div", [](double x, double y) { return x / y; }},
    {"ReverseDivide", [](double x, double y) { return y / x; }},
    {"FloorDiv", [](double x, double y) { return std::floor(x / y); }},
    {"Mod", [](double x, double y) { return x - y * std::floor(x / y); }},
    {"FloorMod", [](double x, double y) { return x - y * std::floor(x / y); }},
    {"TruncateMod", [](double x, double y) { return std::fmod(x, y); }},
    {"DivNoNan", [](double x, double y) { return y == 0 ? 0 : x / y; }},
    {"Pow", [](double x, double y) { return std::pow(x, y); }},
    {"SquaredDifference", [](double x, double y) { return (x - y) * (x - y); }},
    {"Atan2", [](double x, double y) { return std::atan2(x, y); }},
    {"Hypot", [](double x, double y) { return std::hypot(x, y); }},
    {"Xlogy", [](double x, double y) { return x == 0 ? 0 : x * std::log(y); }},
    {"Xlog1py", [](double x, double y) { return x == 0 ? 0 : x * std::log1p(y); }},
    {"Xdivy", [](double x, double y) { return x == 0 ? 0 : x / y; }},
    {"LogAddExp", [](double x, double y) { return std::log(std::exp(x) + std::exp(y)); }},
    {"Heaviside", [](double x, double y) { return x == 0  ? y
                                                  : x > 0 ? 1
                                                          : 0; }},
    {"PRelu", [](double x, double y) { return x < 0 ? x * y : x; }},
    {"Max", [](double x, double y) { return std::fmax(x, y); }},
    {"Min", [](double x, double y) { return std::fmin(x, y); }},
    {"Sum", [](double x, double y) { return x + y; }},
    {"Mean", [](double x, double y) { return (x + y) / 2; }},
    {"MultiplyN", [](double x, double y) { return x * y; }},
    {"FastGelu", [](double x, double y) { return GeluTanh(x + y); }},
    {"BiasGelu", [](double x, double y) { return Gelu(x + y); }},
    {"Equal", [](double x, double y) { return x == y; }},
    {"NotEqual", [](double x, double y) { return x != y; }},
    {"Less", [](double x, double y) { return x < y; }},
    {"LessOrEqual", [](double x, double y) { return x <= y; }},
    {"Greater", [](double x, double y) { return x > y; }},
    {"GreaterOrEqual", [](double x, double y) { return x >= y; }},
    {"Clip", [](double x, double y) { return std::fmax(x, y); }},
    {"ReluGrad", [](double x, double y) { return y > 0 ? x : 0; }},
    {"SigmoidGrad", [](double x, double y) { return y * x * (1 - x); }},
    {"TanhGrad", [](double x, double y) { return y * (1 - x * x); }},
    {"SqrtGrad", [](double x, double y) { return y * 0.5 / x; }},
    {"ReciprocalGrad", [](double x, double y) { return -y * x * x; }},
    {"CastLike", [](double x, double) { return x; }},
};

const std::vector<double> kSamples = {-87.5, -7.25, -2.5, -1.5,  -1,  -0.75, -0.5, -1e-6, 0,
                                      1e-6,  0.25,  0.5,  0.875, 1.5, 2.5,   3,    9.75,  40};

void ExpectNear(double actual, double expected, const std::string& where) {
  if (std::isnan(expected) || std::isinf(expected)) {
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(actual) : actual == expected)
        << where << " is " << actual << ", not " << expected;
    return;
  }
  EXPECT_NEAR(actual, expected, 1e-12 * std::fmax(1, std::fabs(expected))) << where;
}

TEST(ElementwiseTest, EachOperatorOfOneInputComputesWhatCmathDoes) {
  for (const auto& [name, function] : kOneInput) {
    const auto count = static_cast<int64_t>(kSamples.size());
    const auto result = RunOperation(name, {{DType::kF64, {count}, kSamples}});
    ASSERT_TRUE(result.ok()) << name << ": " << result.status();
    for (size_t i = 0; i < kSamples.size(); ++i) {
      ExpectNear(result->numbers[i], function(kSamples[i]),
                 name + "(" + std::to_string(kSamples[i]) + ")");
    }
  }
}

TEST(ElementwiseTest, EachOperatorOfTwoInputsComputesWhatCmathDoes) {
  const auto count = static_cast<int64_t>(kSamples.size());
  for (const auto& [name, function] : kTwoInputs) {
    const bool spreads = FindOperator(name)->broadcast == BroadcastRule::kNumPy;
    for (const double y : {-3.0, -0.5, 0.0, 0.75, 2.0}) {
      const TestTensor other =
          spreads ? TestTensor{DType::kF64, {1}, {y}} : TestTensor{DType::kF64, {}, {y}};
      const auto result = RunOperation(name, {{DType::kF64, {count}, kSamples}, other});
      ASSERT_TRUE(result.ok()) << name << ": " << result.status();
      for (size_t i = 0; i < kSamples.size(); ++i) {
        ExpectNear(result->numbers[i], function(kSamples[i], y),
                   name + "(" + std::to_string(kSamples[i]) + ", " + std::to_string(y) + ")");
      }
    }
  }
}

// Those whose rows the tests below compute.
const std::vector<std::string> kOwnTests = {
    "BitCast",  "Cast",       "And",        "Or",         "Xor",
    "Not",      "BitwiseAnd", "BitwiseOr",  "BitwiseXor", "BitwiseNot",
    "BitShift", "LeftShift",  "RightShift", "Where",      "FusedMultiplyAdd",
    "Lerp",     "Addcmul",    "Addcdiv"};

TEST(ElementwiseTest, NoRowWithAnExpressionIsWithoutATest) {
  for (const Operator& op : AllOperators()) {
    if (!op.parsed) continue;
    const std::string name(op.name);
    EXPECT_TRUE(kOneInput.contains(name) || kTwoInputs.contains(name) ||
                std::ranges::count(kOwnTests, name) == 1)
        << name;
  }
}

std::vector<double> Compute(const std::string& name, const std::vector<TestTensor>& inputs,
                            const Attributes& attributes = {}) {
  const auto result = RunOperation(name, inputs, attributes);
  EXPECT_TRUE(result.ok()) << name << ": " << result.status();
  return result.ok() ? result->numbers : std::vector<double>();
}

TestTensor Row(DType type, std::vector<double> numbers) {
  return {type, {static_cast<int64_t>(numbers.size())}, std::move(numbers)};
}

using Numbers = std::vector<double>;

TEST(ElementwiseTest, LogicAndBits) {
  const TestTensor a = Row(DType::kBool, {0, 0, 1, 1});
  const TestTensor b = Row(DType::kBool, {0, 1, 0, 1});
  EXPECT_EQ(Compute("And", {a, b}), Numbers({0, 0, 0, 1}));
  EXPECT_EQ(Compute("Or", {a, b}), Numbers({0, 1, 1, 1}));
  EXPECT_EQ(Compute("Xor", {a, b}), Numbers({0, 1, 1, 0}));
  EXPECT_EQ(Compute("Not", {a}), Numbers({1, 1, 0, 0}));
  EXPECT_EQ(Compute("Equal", {a, b}), Numbers({1, 0, 0, 1}));
  const TestTensor c = Row(DType::kU8, {12, 255, 1});
  const TestTensor d = Row(DType::kU8, {10, 1, 7});
  EXPECT_EQ(Compute("BitwiseAnd", {c, d}), Numbers({8, 1, 1}));
  EXPECT_EQ(Compute("BitwiseOr", {c, d}), Numbers({14, 255, 7}));
  EXPECT_EQ(Compute("BitwiseXor", {c, d}), Numbers({6, 254, 6}));
  EXPECT_EQ(Compute("BitwiseNot", {c}), Numbers({243, 0, 254}));
  EXPECT_EQ(Compute("BitShift", {c, d}, {{"direction", "LEFT"}}), Numbers({0, 254, 128}));
  EXPECT_EQ(Compute("BitShift", {c, d}, {{"direction", "RIGHT"}}), Numbers({0, 127, 0}));
  EXPECT_EQ(Compute("LeftShift", {c, d}), Numbers({0, 254, 128}));
  EXPECT_EQ(Compute("RightShift", {c, d}), Numbers({0, 127, 0}));
}

TEST(ElementwiseTest, ThreeInputs) {
  const TestTensor x = Row(DType::kF32, {1, 2, 3, kNan});
  const TestTensor y = Row(DType::kF32, {2});
  const TestTensor z = Row(DType::kF32, {5});
  const TestTensor condition = Row(DType::kBool, {1, 0, 1, 0});
  EXPECT_EQ(Compute("Where", {condition, x, z}), Numbers({1, 5, 3, 5}));
  const Numbers clipped = Compute("Clip", {x, y, Row(DType::kF32, {2.5})});
  EXPECT_EQ(Numbers(clipped.begin(), clipped.end() - 1), Numbers({2, 2, 2.5}));
  EXPECT_TRUE(std::isnan(clipped.back()));
  const TestTensor w = Row(DType::kF32, {1, 2, 3});
  EXPECT_EQ(Compute("Clip", {w}, {{"max", 1.5}}), Numbers({1, 1.5, 1.5}));
  EXPECT_EQ(Compute("FusedMultiplyAdd", {w, y, z}), Numbers({7, 9, 11}));
  EXPECT_EQ(Compute("Lerp", {w, z, Row(DType::kF32, {0.5})}), Numbers({3, 3.5, 4}));
  EXPECT_EQ(Compute("Addcmul", {w, y, z}, {{"value", 0.5}}), Numbers({6, 7, 8}));
  EXPECT_EQ(Compute("Addcdiv", {w, z, y}), Numbers({3.5, 4.5, 5.5}));
}

TEST(ElementwiseTest, IntegersDivideTowardsZeroAndModuloFollowsTheDivisor) {
  const TestTensor a = Row(DType::kI32, {7, -7, 7, -7});
  const TestTensor b = Row(DType::kI32, {3, 3, -3, -3});
  EXPECT_EQ(Compute("Div", {a, b}), Numbers({2, -2, -2, 2}));
  EXPECT_EQ(Compute("FloorDiv", {a, b}), Numbers({2, -3, -3, 2}));
  EXPECT_EQ(Compute("Mod", {a, b}), Numbers({1, 2, -2, -1}));
  EXPECT_EQ(Compute("Mod", {a, b}, {{"fmod", int64_t{1}}}), Numbers({1, -1, 1, -1}));
  EXPECT_EQ(Compute("Pow", {a, Row(DType::kI32, {2, 3, 0, 1})}), Numbers({49, -343, 1, -7}));
  EXPECT_EQ(Compute("Sign", {Row(DType::kU8, {0, 3})}), Numbers({0, 1}));
  EXPECT_EQ(Compute("Abs", {a}), Numbers({7, 7, 7, 7}));
}

TEST(ElementwiseTest, PowHasTheTypeOfItsBase) {
  const auto result = RunOperation("Pow", {Row(DType::kI32, {2, 3}), Row(DType::kF32, {0.5, 2.0})});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->type, DType::kI32);
  EXPECT_EQ(result->numbers, Numbers({1, 9}));
}

TEST(ElementwiseTest, HalvesComputeInFloat32) {
  // 2048 + 1 + 1 is 2048 where each sum is rounded to f16.
  const auto result =
      RunOperation("Sum", {Row(DType::kF16, {2048}), Row(DType::kF16, {1}), Row(DType::kF16, {1})});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->type, DType::kF16);
  EXPECT_EQ(result->numbers, Numbers({2050}));
}

TEST(ElementwiseTest, NotANumberAndInfinity) {
  const TestTensor x = Row(DType::kF32, {1, kInf, -kInf, kNan});
  EXPECT_EQ(Compute("IsNaN", {x}), Numbers({0, 0, 0, 1}));
  EXPECT_EQ(Compute("IsInf", {x}), Numbers({0, 1, 1, 0}));
  EXPECT_EQ(Compute("IsInf", {x}, {{"detect_negative", int64_t{0}}}), Numbers({0, 1, 0, 0}));
  EXPECT_EQ(Compute("IsInf", {x}, {{"detect_positive", int64_t{0}}}), Numbers({0, 0, 1, 0}));
  EXPECT_EQ(Compute("IsFinite", {x}), Numbers({1, 0, 0, 0}));
  EXPECT_EQ(Compute("NanToNum", {x}), Numbers({1, kInf, -kInf, 0}));
  EXPECT_EQ(Compute("Softplus", {x})[1], kInf);
  EXPECT_TRUE(std::isnan(Compute("Relu", {x})[3]));
}

TEST(ElementwiseTest, GeluHasTheApproximationThatItsAttributeSays) {
  const double x = 1.25;
  const TestTensor input = Row(DType::kF64, {x});
  EXPECT_NEAR(Compute("Gelu", {input}, {{"approximate", "tanh"}})[0], GeluTanh(x), 1e-12);
  EXPECT_NEAR(Compute("aten::gelu", {input})[0], Gelu(x), 1e-12);
}

TEST(ElementwiseTest, CastsByTheNameOfAType) {
  const TestTensor x = Row(DType::kF32, {-1.75, 0, 0.5, 300});
  EXPECT_EQ(Compute("Cast", {x}, {{"to", "i32"}}), Numbers({-1, 0, 0, 300}));
  EXPECT_EQ(Compute("Cast", {x}, {{"to", "bool"}}), Numbers({1, 0, 1, 1}));
  EXPECT_FALSE(RunOperation("Cast", {x}, {{"to", "string"}}).ok());
  EXPECT_FALSE(RunOperation("Cast", {x}, {{"to", int64_t{7}}}).ok()) << "ONNX's number of i64";
}

TEST(ElementwiseTest, CastsToFp8SaturateUnlessToldOtherwise) {
  // 464 and 61440 lie half a step above the largest numbers: 448, which is even, and 57344.
  const TestTensor x = Row(DType::kF32, {464, 465, -kInf, kNan, 0.5});
  const Attributes saturates = {{"to", "f8e4m3"}};
  const Attributes overflows = {{"to", "f8e4m3"}, {"saturate", int64_t{0}}};
  EXPECT_EQ(Compute("Cast", {x}, saturates)[1], 448);
  const Numbers nan = Compute("Cast", {x}, overflows);
  EXPECT_EQ(nan[0], 448);
  EXPECT_TRUE(std::isnan(nan[1]) && std::isnan(nan[2]) && std::isnan(nan[3]));
  EXPECT_EQ(nan[4], 0.5);
  const TestTensor y = Row(DType::kF16, {61408, 61440, -kInf, 0.5});
  EXPECT_EQ(Compute("CastLike", {y, Row(DType::kF8E5M2, {0, 0, 0, 0})}, {{"saturate", int64_t{0}}}),
            Numbers({57344, kInf, -kInf, 0.5}));
}

TEST(ElementwiseTest, BitsStayAsTheyAreInABitCast) {
  const auto bits = [](DType from, double number, const std::string& to) {
    return Compute("BitCast", {Row(from, {number})}, {{"to", to}})[0];
  };
  EXPECT_EQ(bits(DType::kF32, 1, "i32"), 0x3f800000);
  EXPECT_EQ(bits(DType::kI32, 0x40000000, "f32"), 2);
  EXPECT_EQ(bits(DType::kI8, -1, "u8"), 255);
  EXPECT_EQ(bits(DType::kF16, -2, "u16"), 0xc000);
  EXPECT_FALSE(RunOperation("BitCast", {Row(DType::kF32, {1})}, {{"to", "f64"}}).ok());
}

TEST(ElementwiseTest, ModuloOfFloatsFollowsTheDivisorUnlessItIsFmod) {
  const TestTensor a = Row(DType::kF32, {5.5, -5.5, 5.5, -5.5, -6});
  const TestTensor b = Row(DType::kF32, {2, 2, -2, -2, 3});
  EXPECT_EQ(Compute("Mod", {a, b}), Numbers({1.5, 0.5, -0.5, -1.5, 0}));
  EXPECT_EQ(Compute("Mod", {a, b}, {{"fmod", int64_t{1}}}), Numbers({1.5, -1.5, 1.5, -1.5, 0}));
}

TEST(ElementwiseTest, ShapesBroadcastAsInNumPy) {
  const auto result = RunOperation(
      "Add", {{DType::kF32, {2, 1, 3}, {0, 1, 2, 10, 11, 12}}, {DType::kF32, {2, 1}, {100, 200}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->shape, std::vector<int64_t>({2, 2, 3}));
  EXPECT_EQ(result->numbers, Numbers({100, 101, 102, 200, 201, 202, 110, 111, 112, 210, 211, 212}));
  const auto wrong = RunOperation("Add", {Row(DType::kF32, {1, 2}), Row(DType::kF32, {1, 2, 3})});
  EXPECT_EQ(wrong.status().message(), "Add: shapes [2] and [3] do not fit each other");
}

TEST(ElementwiseTest, TypesThatDifferArePromoted) {
  EXPECT_EQ(RunOperation("Add", {Row(DType::kF16, {1}), Row(DType::kF32, {1})})->type, DType::kF32);
  EXPECT_EQ(RunOperation("Add", {Row(DType::kF16, {1}), Row(DType::kBF16, {1})})->type,
            DType::kF32);
  EXPECT_EQ(RunOperation("Add", {Row(DType::kI64, {1}), Row(DType::kF16, {1})})->type, DType::kF16);
  EXPECT_EQ(RunOperation("Add", {Row(DType::kU8, {1}), Row(DType::kI8, {1})})->type, DType::kI16);
  EXPECT_FALSE(RunOperation("Sqrt", {Row(DType::kI32, {4})}).ok());
}

TEST(ElementwiseTest, DropoutRefusesToTrain) {
  const TestTensor x = Row(DType::kF32, {1, 2});
  const TestTensor ratio = {DType::kF32, {}, {0.5}, true};
  const TestTensor nothing = {DType::kF32, {}, {0}, true};
  EXPECT_EQ(Compute("Dropout", {x, ratio, {DType::kBool, {}, {0}, true}}), Numbers({1, 2}));
  EXPECT_EQ(Compute("Dropout", {x, nothing, {DType::kBool, {}, {1}, true}}), Numbers({1, 2}));
  const auto trained = RunOperation("Dropout", {x, ratio, {DType::kBool, {}, {1}, true}});
  EXPECT_EQ(trained.status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ElementwiseTest, UnsupportedOperatorsSayWhy) {
  const auto result = RunOperation("TopK", {Row(DType::kF32, {1})});
  EXPECT_EQ(result.status().message(), "TopK: sorting needs several passes");
}

}  // namespace
}  // namespace kiln::graph::elementwise_test
