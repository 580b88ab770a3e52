#include <fmt/format.h>

#include "client/graph/program/program_builder.h"
#include "tests/testing/graph/program_cases.h"

namespace kiln::graph {
namespace {

// Row-major: ((a * size_b) + b) * size_c + c …
int RowMajor(ProgramBuilder& make, const std::vector<int>& positions,
             const std::vector<Size>& sizes) {
  int index = positions[0];
  for (size_t i = 1; i < positions.size(); ++i) {
    index = make.Binary(Opcode::kAdd, make.Binary(Opcode::kMultiply, index, make.SizeOf(sizes[i])),
                        positions[i]);
  }
  return index;
}

ProgramCase Done(ProgramBuilder make, std::vector<int64_t> symbols,
                 std::vector<TestBuffer> buffers) {
  ProgramCase test;
  test.program = std::move(make).Finish();
  test.symbols = std::move(symbols);
  test.buffers = std::move(buffers);
  return test;
}

Symbol Named(std::string name) {
  return {.name = std::move(name), .min = 1, .max = 1LL << 40, .typical = 8, .multiple_of = 1};
}

// A reduction of a reduction, and a store in a loop of its own.
ProgramCase Softmax(DType type) {
  ProgramBuilder make(fmt::format("softmax_{}", FactsOf(type).name), {Named("rows")});
  const int x = make.AddInput("x", type);
  const int y = make.AddOutput("y", type);
  const Size columns = 13;
  const int row = make.AxisAt(make.AddOuterAxis(Size::Of(0)));
  const int axis = make.AddInnerAxis(columns);
  const int index = RowMajor(make, {row, make.AxisAt(axis)}, {Size::Of(0), columns});
  const int value = make.Cast(FactsOf(type).compute, make.Load(x, index));
  const int max = make.Reduce(Reduction::kMaximum, value, {axis});
  const int power = make.Unary(Opcode::kExponential, make.Binary(Opcode::kSubtract, value, max));
  const int sum = make.Reduce(Reduction::kSum, power, {axis});
  make.Store(y, index, make.Cast(type, make.Binary(Opcode::kDivide, power, sum)));
  return Done(std::move(make), {5}, {Numbers(type, 65), TestBuffer(type, 65)});
}

// Two reductions in one loop.
ProgramCase Normalization() {
  ProgramBuilder make("normalization");
  const int x = make.AddInput("x", DType::kBF16);
  const int y = make.AddOutput("y", DType::kF32);
  const int row = make.AxisAt(make.AddOuterAxis(6));
  const int axis = make.AddInnerAxis(10);
  const int index = RowMajor(make, {row, make.AxisAt(axis)}, {6, 10});
  const int value = make.Cast(DType::kF32, make.Load(x, index));
  const int tenth = make.Constant(DType::kF32, 0.1);
  const int mean =
      make.Binary(Opcode::kMultiply, make.Reduce(Reduction::kSum, value, {axis}), tenth);
  const int squares =
      make.Reduce(Reduction::kSum, make.Binary(Opcode::kMultiply, value, value), {axis});
  const int variance =
      make.Binary(Opcode::kSubtract, make.Binary(Opcode::kMultiply, squares, tenth),
                  make.Binary(Opcode::kMultiply, mean, mean));
  const int scale =
      make.Unary(Opcode::kReciprocalSquareRoot,
                 make.Binary(Opcode::kAdd, variance, make.Constant(DType::kF32, 1e-2)));
  make.Store(y, index,
             make.Binary(Opcode::kMultiply, make.Binary(Opcode::kSubtract, value, mean), scale));
  return Done(std::move(make), {}, {Numbers(DType::kBF16, 60), TestBuffer(DType::kF32, 60)});
}

ProgramCase MatrixProduct(DType type) {
  ProgramBuilder make(fmt::format("matmul_{}", FactsOf(type).name), {Named("m"), Named("k")});
  const int a = make.AddInput("a", type);
  const int b = make.AddInput("b", type);
  const int c = make.AddOutput("c", type);
  const Size m = Size::Of(0);
  const Size k = Size::Of(1);
  const int row = make.AxisAt(make.AddOuterAxis(m));
  const int column = make.AxisAt(make.AddOuterAxis(6));
  const int axis = make.AddInnerAxis(k);
  const DType sum_type = FactsOf(type).accumulate;
  const auto element = [&](int buffer, int index) {
    return make.Cast(sum_type, make.Load(buffer, index));
  };
  const int one = element(a, RowMajor(make, {row, make.AxisAt(axis)}, {m, k}));
  const int other = element(b, RowMajor(make, {make.AxisAt(axis), column}, {k, 6}));
  const int sum = make.Reduce(Reduction::kSum, make.Binary(Opcode::kMultiply, one, other), {axis});
  make.Store(c, RowMajor(make, {row, column}, {m, 6}), make.Cast(type, sum));
  return Done(std::move(make), {7, 9},
              {Numbers(type, 63), Numbers(type, 54, 5, 19), TestBuffer(type, 42)});
}

// Reductions inside of the loop of another one.
ProgramCase Attention() {
  ProgramBuilder make("attention");
  const int q = make.AddInput("q", DType::kF32);
  const int k = make.AddInput("k", DType::kF32);
  const int v = make.AddInput("v", DType::kF32);
  const int o = make.AddOutput("o", DType::kF32);
  const int row = make.AxisAt(make.AddOuterAxis(5));
  const int keys = make.AddInnerAxis(7);
  const int inner = make.AddInnerAxis(4);
  const int width = make.AddInnerAxis(3);
  const int product = make.Binary(
      Opcode::kMultiply, make.Load(q, RowMajor(make, {row, make.AxisAt(inner)}, {5, 4})),
      make.Load(k, RowMajor(make, {make.AxisAt(keys), make.AxisAt(inner)}, {7, 4})));
  const int score = make.Reduce(Reduction::kSum, product, {inner});
  const int max = make.Reduce(Reduction::kMaximum, score, {keys});
  const int power = make.Unary(Opcode::kExponential, make.Binary(Opcode::kSubtract, score, max));
  const int sum = make.Reduce(Reduction::kSum, power, {keys});
  const int value = make.Load(v, RowMajor(make, {make.AxisAt(keys), make.AxisAt(width)}, {7, 3}));
  const int weighted =
      make.Reduce(Reduction::kSum, make.Binary(Opcode::kMultiply, power, value), {keys});
  make.Store(o, RowMajor(make, {row, make.AxisAt(width)}, {5, 3}),
             make.Binary(Opcode::kDivide, weighted, sum));
  return Done(std::move(make), {},
              {Numbers(DType::kF32, 20), Numbers(DType::kF32, 28, 5, 19),
               Numbers(DType::kF32, 21, 3, 13), TestBuffer(DType::kF32, 15)});
}

// Indexes from memory; those outside of the table give 0, and their results are not stored.
ProgramCase Gather() {
  ProgramBuilder make("gather");
  const int table = make.AddInput("table", DType::kF16);
  const int at = make.AddInput("at", DType::kI32);
  const int y = make.AddOutput("y", DType::kF16);
  const int z = make.AddOutput("z", DType::kBool);
  const int position = make.AxisAt(make.AddOuterAxis(20));
  const int index = make.Cast(DType::kI64, make.Load(at, position));
  const int is_inside = make.Binary(Opcode::kLess, index, make.SizeOf(9));
  make.Store(y, position, make.Load(table, index, is_inside));
  make.Store(z, position, is_inside, is_inside);
  return Done(std::move(make), {},
              {Numbers(DType::kF16, 9), Numbers(DType::kI32, 20, 7, 13),
               TestBuffer(DType::kF16, 20), TestBuffer(DType::kBool, 20)});
}

ProgramCase Atomic(StoreKind store, std::string_view name, DType type) {
  ProgramBuilder make(fmt::format("atomic_{}_{}", name, FactsOf(type).name));
  const int x = make.AddInput("x", type);
  const int at = make.AddInput("at", DType::kI64);
  const int y = make.AddOutput("y", type);
  const int position = make.AxisAt(make.AddOuterAxis(20));
  make.Store(y, make.Load(at, position), make.Load(x, position), std::nullopt, store);
  return Done(std::move(make), {},
              {Numbers(type, 20, 1, 4), Numbers(DType::kI64, 20, 7, 3), Numbers(type, 3, 1, 7)});
}

// Sums up to each position: a mask that depends on an inner axis.
ProgramCase CumulativeSum() {
  ProgramBuilder make("cumulative_sum", {Named("n")});
  const int x = make.AddInput("x", DType::kF64);
  const int y = make.AddOutput("y", DType::kF64);
  const int at = make.AxisAt(make.AddOuterAxis(Size::Of(0)));
  const int axis = make.AddInnerAxis(Size::Of(0));
  const int is_before = make.Binary(Opcode::kLessOrEqual, make.AxisAt(axis), at);
  make.Store(y, at,
             make.Reduce(Reduction::kSum, make.Load(x, make.AxisAt(axis), is_before), {axis}));
  return Done(std::move(make), {17}, {Numbers(DType::kF64, 17), TestBuffer(DType::kF64, 17)});
}

// No rows at all, or sums over nothing.
ProgramCase Empty(int64_t rows, int64_t columns) {
  ProgramBuilder make(fmt::format("empty_{}_{}", rows, columns));
  const int x = make.AddInput("x", DType::kI32);
  const int y = make.AddOutput("y", DType::kI32);
  const int row = make.AxisAt(make.AddOuterAxis(rows));
  const int other = make.AxisAt(make.AddOuterAxis(2));
  const int axis = make.AddInnerAxis(columns);
  const int value = make.Load(x, RowMajor(make, {row, make.AxisAt(axis)}, {rows, columns}));
  make.Store(y, RowMajor(make, {row, other}, {rows, 2}),
             make.Reduce(Reduction::kSum, value, {axis}));
  return Done(std::move(make), {},
              {Numbers(DType::kI32, rows * columns), Numbers(DType::kI32, rows * 2)});
}

ProgramCase Transposition() {
  ProgramBuilder make("transposition", {Named("a"), Named("b")});
  const int x = make.AddInput("x", DType::kF8E4M3);
  const int y = make.AddOutput("y", DType::kF8E4M3);
  const Size a = Size::Of(0);
  const Size b = Size::Of(1);
  const int i = make.AxisAt(make.AddOuterAxis(a));
  const int j = make.AxisAt(make.AddOuterAxis(3));
  const int k = make.AxisAt(make.AddOuterAxis(b));
  make.Store(y, RowMajor(make, {k, i, j}, {b, a, 3}),
             make.Load(x, RowMajor(make, {i, j, k}, {a, 3, b})));
  return Done(std::move(make), {4, 5},
              {Numbers(DType::kF8E4M3, 60), TestBuffer(DType::kF8E4M3, 60)});
}

// A buffer that is read and written, and another store that needs what was read.
ProgramCase InPlace() {
  ProgramBuilder make("in_place");
  const int x = make.AddOutput("x", DType::kI32);
  const int y = make.AddOutput("y", DType::kI32);
  const int at = make.AxisAt(make.AddOuterAxis(9));
  const int value = make.Load(x, at);
  make.Store(x, at, make.Binary(Opcode::kAdd, value, make.Constant(DType::kI32, 1)));
  make.Store(y, at, value);
  return Done(std::move(make), {}, {Numbers(DType::kI32, 9), TestBuffer(DType::kI32, 9)});
}

}  // namespace

std::vector<ProgramCase> ComposedCases() {
  std::vector<ProgramCase> cases;
  for (const DType type : {DType::kF32, DType::kF64}) cases.push_back(Softmax(type));
  for (const DType type : {DType::kF32, DType::kI8, DType::kF64}) {
    cases.push_back(MatrixProduct(type));
  }
  cases.push_back(Normalization());
  cases.push_back(Attention());
  cases.push_back(Gather());
  for (int number = 1; number < kDTypes; ++number) {
    const auto type = static_cast<DType>(number);
    if (FactsOf(type).bits < 8) continue;
    cases.push_back(Atomic(StoreKind::kAtomicAdd, "add", type));
    cases.push_back(Atomic(StoreKind::kAtomicMinimum, "min", type));
    cases.push_back(Atomic(StoreKind::kAtomicMaximum, "max", type));
  }
  cases.push_back(CumulativeSum());
  cases.push_back(Empty(0, 3));
  cases.push_back(Empty(3, 0));
  cases.push_back(Transposition());
  cases.push_back(InPlace());
  return cases;
}

}  // namespace kiln::graph
