#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "client/graph/program/opcode.h"
#include "tests/testing/triton_ir/programs.h"

namespace kiln::graph {
namespace {

constexpr int64_t kCount = 77;  // no power of two: the last block has a rest

// A program of elementwise results: each has a buffer of its own.
class Elementwise {
 public:
  explicit Elementwise(std::string name) : builder_(std::move(name)) {
    position_ = builder_.AxisAt(builder_.AddOuterAxis(kCount));
  }

  ProgramBuilder& builder() { return builder_; }

  int Input(DType type, const std::vector<double>& numbers) {
    buffers_.push_back(TestBuffer::Of(type, numbers));
    const int buffer = builder_.AddInput(fmt::format("x{}", buffers_.size()), type);
    return builder_.Load(buffer, position_);
  }

  void Output(int value) {
    const DType type = builder_.TypeOf(value);
    buffers_.emplace_back(type, kCount);
    const int buffer = builder_.AddOutput(fmt::format("y{}", buffers_.size()), type);
    stores_.emplace_back(buffer, value);
  }

  ProgramCase Finish() && {
    for (const auto& [buffer, value] : stores_) builder_.Store(buffer, position_, value);
    return {std::move(builder_).Finish(), {}, std::move(buffers_)};
  }

 private:
  ProgramBuilder builder_;
  int position_ = 0;
  std::vector<TestBuffer> buffers_;
  std::vector<std::pair<int, int>> stores_;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> With(std::vector<double> numbers, const std::vector<double>& special) {
  for (size_t i = 0; i < special.size(); ++i) numbers[3 * i] = special[i];
  return numbers;
}

ProgramCase FloatOperators(DType type) {
  Elementwise program(fmt::format("operators_of_{}", FactsOf(type).name));
  ProgramBuilder& builder = program.builder();
  const std::vector<double> special = {0.0, -0.0, kInfinity, -kInfinity, std::nan(""), 0.5, 2.5};
  const int x = program.Input(type, With(Numbers(kCount, -4, 4), special));
  const int y =
      program.Input(type, With(Numbers(kCount, -3, 3, 2), {1, -0.0, 2, 3, 1, std::nan("")}));
  const int z = program.Input(type, Numbers(kCount, -1, 1, 3));
  for (int i = static_cast<int>(Opcode::kNegate); i <= static_cast<int>(Opcode::kRoundToEven);
       ++i) {
    program.Output(builder.Unary(static_cast<Opcode>(i), x));
  }
  const int small = program.Input(type, Numbers(kCount, -0.99, 0.99, 4));
  for (Opcode opcode : {Opcode::kArcSine, Opcode::kArcCosine, Opcode::kArcHyperbolicTangent}) {
    program.Output(builder.Unary(opcode, small));
  }
  program.Output(builder.Unary(Opcode::kIsNan, x));
  program.Output(builder.Unary(Opcode::kIsInfinite, x));
  for (Opcode opcode :
       {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kDivide, Opcode::kRemainder,
        Opcode::kMinimum, Opcode::kMaximum, Opcode::kPower, Opcode::kArcTangent2, Opcode::kLess,
        Opcode::kLessOrEqual, Opcode::kEqual, Opcode::kNotEqual}) {
    program.Output(builder.Binary(opcode, x, y));
  }
  program.Output(builder.MultiplyAdd(x, y, z));
  program.Output(builder.Select(builder.Binary(Opcode::kLess, x, y), y, z));
  program.Output(builder.Constant(type, -kInfinity));
  program.Output(builder.Constant(type, 1.0 / 3));
  return std::move(program).Finish();
}

ProgramCase IntegerOperators(DType type) {
  Elementwise program(fmt::format("operators_of_{}", FactsOf(type).name));
  ProgramBuilder& builder = program.builder();
  const bool is_signed = FactsOf(type).kind == DTypeClass::kSigned;
  const double smallest = is_signed ? -std::ldexp(1.0, FactsOf(type).bits - 1) : 0;
  const int x =
      program.Input(type, With(Numbers(kCount, is_signed ? -100 : 0, 100), {smallest, 0, 7}));
  const int y = program.Input(type, With(Numbers(kCount, 1, 9, 2), {is_signed ? -1.0 : 5.0, 3, 2}));
  const int z = program.Input(type, Numbers(kCount, 0, 90, 3));
  for (Opcode opcode : {Opcode::kNegate, Opcode::kAbsolute, Opcode::kNot}) {
    program.Output(builder.Unary(opcode, x));
  }
  for (Opcode opcode : {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kDivide,
                        Opcode::kRemainder, Opcode::kFloorDivide, Opcode::kFloorRemainder,
                        Opcode::kMinimum, Opcode::kMaximum, Opcode::kAnd, Opcode::kOr, Opcode::kXor,
                        Opcode::kLess, Opcode::kLessOrEqual, Opcode::kEqual, Opcode::kNotEqual}) {
    program.Output(builder.Binary(opcode, x, y));
  }
  program.Output(builder.Binary(Opcode::kShiftLeft, x, z));
  program.Output(builder.Binary(Opcode::kShiftRight, x, z));
  if (is_signed) {
    const int negative = builder.Unary(Opcode::kNegate, y);
    program.Output(builder.Binary(Opcode::kFloorDivide, x, negative));
    program.Output(builder.Binary(Opcode::kFloorRemainder, x, negative));
  }
  program.Output(builder.MultiplyAdd(x, y, z));
  program.Output(builder.Select(builder.Binary(Opcode::kLess, x, y), y, z));
  program.Output(builder.Integer(type, 100));
  return std::move(program).Finish();
}

ProgramCase BoolOperators() {
  Elementwise program("operators_of_bool");
  ProgramBuilder& builder = program.builder();
  std::vector<double> one;
  std::vector<double> other;
  for (int64_t i = 0; i < kCount; ++i) {
    one.push_back(i % 2);
    other.push_back(i / 2 % 2);
  }
  const int x = program.Input(DType::kBool, one);
  const int y = program.Input(DType::kBool, other);
  program.Output(builder.Unary(Opcode::kNot, x));
  for (Opcode opcode :
       {Opcode::kAnd, Opcode::kOr, Opcode::kXor, Opcode::kEqual, Opcode::kNotEqual}) {
    program.Output(builder.Binary(opcode, x, y));
  }
  program.Output(builder.Select(x, y, builder.Unary(Opcode::kNot, y)));
  program.Output(builder.Integer(DType::kBool, 1));
  return std::move(program).Finish();
}

bool IsSupported(DType type) { return FactsOf(type).bits >= 8; }

// Numbers that every type has: C leaves the other casts to integers open.
ProgramCase CastsFrom(DType from) {
  Elementwise program(fmt::format("casts_from_{}", FactsOf(from).name));
  const int x =
      program.Input(from, With(Numbers(kCount, 0, from == DType::kBool ? 1 : 100), {0, 1}));
  for (int i = 0; i < kDTypes; ++i) {
    const auto to = static_cast<DType>(i);
    if (!IsSupported(to) || to == from) continue;
    program.Output(program.builder().Cast(to, x));
  }
  return std::move(program).Finish();
}

// Halves, ties, subnormals, the largest numbers and beyond.
ProgramCase NarrowFloats() {
  Elementwise program("narrow_floats");
  std::vector<double> numbers =
      With(Numbers(kCount, -500, 500), {0.0, -0.0, kInfinity, -kInfinity, std::nan("")});
  const std::vector<double> edges = {
      448,          464,    480,      57344,     61440,         65504,         65520,
      1e6,          -1e9,   0.015625, 0.0146484, 0.001953125,   0.0009765625,  0.00097656,
      0.0029296875, 1.0625, 1.1875,   1.125,     3.0517578e-05, 1.5258789e-05, 7.6e-06,
      1e-7,         1e-40,  17,       19};
  for (size_t i = 0; i < edges.size(); ++i) numbers[20 + 2 * i] = edges[i];
  const int x = program.Input(DType::kF32, numbers);
  ProgramBuilder& builder = program.builder();
  for (DType type : {DType::kF8E4M3, DType::kF8E5M2, DType::kBF16, DType::kF16}) {
    const int narrow = builder.Cast(type, x);
    program.Output(narrow);
    program.Output(builder.Cast(DType::kF32, narrow));
    program.Output(builder.Constant(type, 19));
    program.Output(
        builder.Select(builder.Binary(Opcode::kLess, x, builder.Constant(DType::kF32, 0)),
                       builder.Constant(type, -0.001), narrow));
  }
  return std::move(program).Finish();
}

ProgramCase BitCasts() {
  Elementwise program("bit_casts");
  ProgramBuilder& builder = program.builder();
  const std::vector<std::pair<DType, DType>> pairs = {
      {DType::kF32, DType::kI32},  {DType::kF64, DType::kU64},   {DType::kF16, DType::kI16},
      {DType::kBF16, DType::kU16}, {DType::kF8E4M3, DType::kU8}, {DType::kI8, DType::kU8}};
  for (const auto& [one, other] : pairs) {
    const int x = program.Input(one, Numbers(kCount, -50, 50));
    const int bits = builder.BitCast(other, x);
    program.Output(bits);
    program.Output(builder.BitCast(one, bits));
  }
  return std::move(program).Finish();
}

}  // namespace

std::vector<ProgramCase> OperatorPrograms() {
  std::vector<ProgramCase> cases;
  cases.push_back(FloatOperators(DType::kF32));
  cases.push_back(FloatOperators(DType::kF64));
  for (DType type : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                     DType::kU32, DType::kU64}) {
    cases.push_back(IntegerOperators(type));
  }
  cases.push_back(BoolOperators());
  for (int i = 0; i < kDTypes; ++i) {
    if (IsSupported(static_cast<DType>(i))) cases.push_back(CastsFrom(static_cast<DType>(i)));
  }
  cases.push_back(NarrowFloats());
  cases.push_back(BitCasts());
  return cases;
}

}  // namespace kiln::graph
