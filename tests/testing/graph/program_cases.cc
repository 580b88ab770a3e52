#include "tests/testing/graph/program_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "client/graph/program/opcode.h"
#include "client/graph/program/program_builder.h"

namespace kiln::graph {
namespace {

constexpr int64_t kElements = 24;

std::vector<DType> AllTypes() {
  std::vector<DType> types;
  for (int number = 0; number < kDTypes; ++number) {
    const auto type = static_cast<DType>(number);
    if (FactsOf(type).bits >= 8) types.push_back(type);
  }
  return types;
}

// Numbers in the range that the function of a float is defined on, both signs where it has them.
double FloatInput(Opcode opcode, size_t operand, int64_t at) {
  const double step = static_cast<double>(at) + 0.375 * static_cast<double>(operand);
  switch (opcode) {
    case Opcode::kArcSine:
    case Opcode::kArcCosine:
    case Opcode::kArcHyperbolicTangent:
      return (step - 11.5) / 12.5;
    case Opcode::kArcHyperbolicCosine:
      return 1 + step / 3;
    case Opcode::kSquareRoot:
    case Opcode::kReciprocalSquareRoot:
    case Opcode::kLogarithm:
    case Opcode::kLogarithm2:
      return 0.125 + step * 1.75;
    case Opcode::kPower:
      return operand == 0 ? 0.25 + step / 4 : (step - 12) / 5;
    case Opcode::kIsNan:
    case Opcode::kMinimum:
    case Opcode::kMaximum:
      if ((at + static_cast<int64_t>(operand)) % 5 == 0) return std::nan("");
      return static_cast<double>((at * 7 + static_cast<int64_t>(operand) * 5) % 11) - 5;
    case Opcode::kIsInfinite:
      return at % 3 == 0 ? std::numeric_limits<double>::infinity() * (at % 2 == 0 ? 1 : -1) : step;
    case Opcode::kEqual:
    case Opcode::kNotEqual:
    case Opcode::kLess:
    case Opcode::kLessOrEqual:
      return at == 3 ? std::nan("") : static_cast<double>(at % (3 + static_cast<int64_t>(operand)));
    default:
      return operand == 0 ? (step - 12) / 2.5 : (step - 7.3) / 1.7;
  }
}

int64_t IntegerInput(Opcode opcode, DType type, size_t operand, int64_t at) {
  const bool is_signed = FactsOf(type).kind == DTypeClass::kSigned;
  const int bits = FactsOf(type).bits;
  if (opcode == Opcode::kShiftLeft || opcode == Opcode::kShiftRight) {
    if (operand == 1) return at % 4 == 0 ? bits + at : at % bits;
  } else if (operand == 1 && FactsOf(opcode).name.find("div") == std::string_view::npos &&
             FactsOf(opcode).name.find("rem") == std::string_view::npos) {
    return (at * 3) % 17 - (is_signed ? 8 : 0);
  } else if (operand == 1) {
    const int64_t divisor = at % 6 + 1;  // not 0
    return is_signed && at % 2 == 0 ? -divisor : divisor;
  }
  // Extremes among them.
  if (at == 0) return is_signed ? static_cast<int64_t>(~0ULL << (bits - 1)) : -1;
  return at * 5 - (is_signed ? 60 : 0);
}

TestBuffer Input(Opcode opcode, DType type, size_t operand) {
  TestBuffer buffer(type, kElements);
  for (int64_t at = 0; at < kElements; ++at) {
    if (type == DType::kBool) {
      buffer.SetBits(at, static_cast<uint64_t>(at >> operand) & 1);
    } else if (IsFloat(type)) {
      buffer.SetNumber(at, FloatInput(opcode, operand, at));
    } else {
      buffer.SetBits(at, static_cast<uint64_t>(IntegerInput(opcode, type, operand, at)));
    }
  }
  return buffer;
}

// y[i] = opcode(x0[i], x1[i], …)
ProgramCase Elementwise(Opcode opcode, DType type, DType result) {
  ProgramBuilder make(
      fmt::format("{}_{}_{}", FactsOf(opcode).name, FactsOf(type).name, FactsOf(result).name));
  ProgramCase test;
  const auto count = static_cast<size_t>(FactsOf(opcode).operands_max);
  for (size_t i = 0; i < count; ++i) {
    const DType operand = opcode == Opcode::kSelect && i == 0 ? DType::kBool : type;
    make.AddInput(fmt::format("x{}", i), operand);
    test.buffers.push_back(Input(opcode, operand, i));
  }
  const int y = make.AddOutput("y", result);
  test.buffers.emplace_back(result, kElements);
  const int at = make.AxisAt(make.AddOuterAxis(kElements));
  std::vector<int> x;
  for (size_t i = 0; i < count; ++i) x.push_back(make.Load(static_cast<int>(i), at));
  const int value = opcode == Opcode::kCast          ? make.Cast(result, x[0])
                    : opcode == Opcode::kBitCast     ? make.BitCast(result, x[0])
                    : opcode == Opcode::kSelect      ? make.Select(x[0], x[1], x[2])
                    : opcode == Opcode::kMultiplyAdd ? make.MultiplyAdd(x[0], x[1], x[2])
                    : count == 1                     ? make.Unary(opcode, x[0])
                                                     : make.Binary(opcode, x[0], x[1]);
  make.Store(y, at, value);
  test.program = std::move(make).Finish();
  return test;
}

// Casts of numbers that the target has, or rounds: others are any value.
void MakeRepresentable(TestBuffer& buffer, DType target) {
  for (int64_t at = 0; at < buffer.size(); ++at) {
    const double number = IsFloat(target) ? static_cast<double>(at * at * at - 40 * at) / 9
                          : FactsOf(target).kind == DTypeClass::kSigned
                              ? static_cast<double>(at * 9 - 100) / 1.25
                              : static_cast<double>(at * 9) / 1.75;
    buffer.SetNumber(
        at, number < 0 && FactsOf(buffer.type()).kind == DTypeClass::kUnsigned ? -number : number);
  }
}

bool Takes(const OpcodeFacts& facts, DType type) {
  if (type == DType::kBool) return facts.takes_bool;
  return FactsOf(type).compute == type && (IsFloat(type) ? facts.takes_float : facts.takes_integer);
}

ProgramCase ReductionCase(Reduction reduction, DType type) {
  const bool is_argument = IsArgReduction(reduction);
  ProgramBuilder make(fmt::format("reduce_{}_{}", NameOf(reduction), FactsOf(type).name));
  const DType result = is_argument ? DType::kI64 : type;
  const int x = make.AddInput("x", type);
  const int y = make.AddOutput("y", result);
  const int row = make.AxisAt(make.AddOuterAxis(3));
  const int a = make.AddInnerAxis(2);
  const int b = make.AddInnerAxis(5);
  const int line = make.MultiplyAdd(row, make.SizeOf(2), make.AxisAt(a));
  const int index = make.MultiplyAdd(line, make.SizeOf(5), make.AxisAt(b));
  make.Store(y, row, make.Reduce(reduction, make.Load(x, index), {a, b}));
  ProgramCase test;
  test.buffers = {Numbers(type, 30, 7, 5), TestBuffer(result, 3)};
  if (is_argument && IsFloat(type)) test.buffers[0].SetNumber(14, std::nan(""));
  test.program = std::move(make).Finish();
  return test;
}

}  // namespace

TestBuffer Numbers(DType type, int64_t count, int64_t factor, int64_t modulus) {
  TestBuffer buffer(type, count);
  for (int64_t at = 0; at < count; ++at) {
    const auto number = static_cast<double>((at * factor) % modulus);
    buffer.SetNumber(at, IsFloat(type) ? (number - 9) / 8 : number);
  }
  return buffer;
}

std::vector<ProgramCase> OpcodeCases() {
  std::vector<ProgramCase> cases;
  for (int number = 0; number <= static_cast<int>(Opcode::kStore); ++number) {
    const auto opcode = static_cast<Opcode>(number);
    const OpcodeFacts& facts = FactsOf(opcode);
    for (const DType type : AllTypes()) {
      if (facts.kind == OpcodeKind::kCompute && Takes(facts, type)) {
        cases.push_back(Elementwise(opcode, type, facts.gives_bool ? DType::kBool : type));
      }
      if (opcode == Opcode::kSelect) cases.push_back(Elementwise(opcode, type, type));
      if (opcode != Opcode::kCast && opcode != Opcode::kBitCast) continue;
      for (const DType result : AllTypes()) {
        if (result == type) continue;
        if (opcode == Opcode::kBitCast && FactsOf(type).bits != FactsOf(result).bits) continue;
        cases.push_back(Elementwise(opcode, type, result));
        if (opcode == Opcode::kCast) MakeRepresentable(cases.back().buffers[0], result);
      }
    }
  }
  return cases;
}

std::vector<ProgramCase> ReductionCases() {
  std::vector<ProgramCase> cases;
  for (int number = 0; number <= static_cast<int>(Reduction::kLastArgMaximum); ++number) {
    const auto reduction = static_cast<Reduction>(number);
    const bool is_logic = reduction == Reduction::kAnd || reduction == Reduction::kOr;
    for (const DType type : AllTypes()) {
      const bool takes = is_logic ? !IsFloat(type) : type != DType::kBool;
      if (takes && FactsOf(type).compute == type) cases.push_back(ReductionCase(reduction, type));
    }
  }
  return cases;
}

absl::StatusOr<std::vector<TestBuffer>> Expected(const ProgramCase& test) {
  std::vector<TestBuffer> buffers = test.buffers;
  const absl::Status status = Interpret(test.program, test.symbols, buffers);
  if (!status.ok()) return status;
  return buffers;
}

std::string Difference(const TestBuffer& expected, const TestBuffer& actual) {
  const DType type = expected.type();
  const double tolerance = type == DType::kF32 ? 4e-6 : type == DType::kF64 ? 1e-13 : 0;
  for (int64_t at = 0; at < expected.size(); ++at) {
    if (expected.Bits(at) == actual.Bits(at)) continue;
    const double want = expected.Number(at);
    const double got = actual.Number(at);
    if (std::isnan(want) && std::isnan(got)) continue;
    if (IsFloat(type) && std::fabs(want - got) <= tolerance * std::max(1.0, std::fabs(want)))
      continue;
    return fmt::format("element {} is {}, not {}", at, got, want);
  }
  return "";
}

}  // namespace kiln::graph
