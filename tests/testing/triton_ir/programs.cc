#include "tests/testing/triton_ir/programs.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace kiln::graph {
namespace {

constexpr Reduction kReductions[] = {Reduction::kSum,
                                     Reduction::kProduct,
                                     Reduction::kMinimum,
                                     Reduction::kMaximum,
                                     Reduction::kFirstArgMinimum,
                                     Reduction::kFirstArgMaximum,
                                     Reduction::kLastArgMinimum,
                                     Reduction::kLastArgMaximum,
                                     Reduction::kAnd,
                                     Reduction::kOr};

bool Takes(Reduction reduction, DType type) {
  const bool is_logic = reduction == Reduction::kAnd || reduction == Reduction::kOr;
  return is_logic ? !IsFloat(type) : type != DType::kBool;
}

struct Extents {
  Size size;
  int64_t number;
};

// A matrix and what all reductions make of its rows. `is_nan_there`: some rows have a NaN or two.
ProgramCase RowReductions(const std::string& name, DType type, Extents rows, Extents columns,
                          std::vector<Symbol> symbols = {}, std::vector<int64_t> values = {}) {
  ProgramBuilder builder(name, std::move(symbols));
  const int row = builder.AxisAt(builder.AddOuterAxis(rows.size));
  const int axis = builder.AddInnerAxis(columns.size);
  const int column = builder.AxisAt(axis);
  const int index = builder.Binary(
      Opcode::kAdd, builder.Binary(Opcode::kMultiply, row, builder.SizeOf(columns.size)), column);
  ProgramCase result;
  // Few different numbers, so that extremes are there twice; near 1, so that products are finite.
  std::vector<double> numbers =
      Numbers(rows.number * columns.number, IsFloat(type) ? 0.95 : -4, IsFloat(type) ? 1.05 : 4);
  if (IsFloat(type)) {
    for (double& number : numbers) number = std::round(number * 100) / 100;
    if (rows.number > 2) numbers[static_cast<size_t>(columns.number) + 3] = NAN;
    if (rows.number > 2) numbers[static_cast<size_t>(columns.number) + 5] = NAN;
  }
  if (type == DType::kBool) {
    for (double& number : numbers) number = number > -3.9 ? 1 : 0;
  }
  result.buffers.push_back(TestBuffer::Of(type, numbers));
  const int x = builder.Load(builder.AddInput("x", type), index);
  std::vector<int> totals;
  for (Reduction reduction : kReductions) {
    if (Takes(reduction, type)) totals.push_back(builder.Reduce(reduction, x, {axis}));
  }
  for (size_t i = 0; i < totals.size(); ++i) {
    const DType total = builder.TypeOf(totals[i]);
    builder.Store(builder.AddOutput(fmt::format("y{}", i), total), row, totals[i]);
    result.buffers.emplace_back(total, rows.number);
  }
  result.program = std::move(builder).Finish();
  result.symbols = std::move(values);
  return result;
}

// y = softmax(x) by rows; in place where there is one buffer.
ProgramCase Softmax(const std::string& name, DType type, Extents rows, Extents columns,
                    bool is_in_place, std::vector<Symbol> symbols = {},
                    std::vector<int64_t> values = {}) {
  ProgramBuilder builder(name, std::move(symbols));
  const int row = builder.AxisAt(builder.AddOuterAxis(rows.size));
  const int axis = builder.AddInnerAxis(columns.size);
  const int index = builder.Binary(
      Opcode::kAdd, builder.Binary(Opcode::kMultiply, row, builder.SizeOf(columns.size)),
      builder.AxisAt(axis));
  const int input = is_in_place ? builder.AddOutput("x", type) : builder.AddInput("x", type);
  const int x = builder.Cast(DType::kF32, builder.Load(input, index));
  const int largest = builder.Reduce(Reduction::kMaximum, x, {axis});
  const int power =
      builder.Unary(Opcode::kExponential, builder.Binary(Opcode::kSubtract, x, largest));
  const int sum = builder.Reduce(Reduction::kSum, power, {axis});
  const int output = is_in_place ? input : builder.AddOutput("y", type);
  builder.Store(output, index, builder.Cast(type, builder.Binary(Opcode::kDivide, power, sum)));
  ProgramCase result;
  const int64_t count = rows.number * columns.number;
  result.buffers.push_back(TestBuffer::Of(type, Numbers(count, -3, 3)));
  if (!is_in_place) result.buffers.emplace_back(type, count);
  result.program = std::move(builder).Finish();
  result.symbols = std::move(values);
  return result;
}

// [rows, depth] times [depth, columns], naively, with a bias for each column.
ProgramCase Product(DType type, int64_t rows, int64_t depth, int64_t columns) {
  ProgramBuilder builder(fmt::format("product_of_{}", FactsOf(type).name));
  const int row = builder.AxisAt(builder.AddOuterAxis(rows));
  const int column = builder.AxisAt(builder.AddOuterAxis(columns));
  const int axis = builder.AddInnerAxis(depth);
  const int at = builder.AxisAt(axis);
  const int a = builder.Load(builder.AddInput("a", type), RowMajor(builder, row, depth, at));
  const int b = builder.Load(builder.AddInput("b", type), RowMajor(builder, at, columns, column));
  const int bias = builder.Load(builder.AddInput("bias", DType::kF32), column);
  const int product =
      builder.Binary(Opcode::kMultiply, builder.Cast(DType::kF32, a), builder.Cast(DType::kF32, b));
  const int sum =
      builder.Binary(Opcode::kAdd, builder.Reduce(Reduction::kSum, product, {axis}), bias);
  builder.Store(builder.AddOutput("c", type), RowMajor(builder, row, columns, column),
                builder.Cast(type, sum));
  return {
      std::move(builder).Finish(),
      {},
      {TestBuffer::Of(type, Numbers(rows * depth, -1, 1)),
       TestBuffer::Of(type, Numbers(depth * columns, -1, 1, 2)),
       TestBuffer::Of(DType::kF32, Numbers(columns, -1, 1, 3)), TestBuffer(type, rows * columns)}};
}

// Scores are sums within loops over keys; the result is a loop over the head around one over keys.
ProgramCase Attention() {
  constexpr int64_t kQueries = 5;
  constexpr int64_t kKeys = 6;
  constexpr int64_t kHead = 12;
  ProgramBuilder builder("attention");
  const int query = builder.AxisAt(builder.AddOuterAxis(kQueries));
  const int keys = builder.AddInnerAxis(kKeys);
  const int head = builder.AddInnerAxis(kHead);
  const int out = builder.AddInnerAxis(kHead);
  const int key = builder.AxisAt(keys);
  const int q = builder.Load(builder.AddInput("q", DType::kF32),
                             RowMajor(builder, query, kHead, builder.AxisAt(head)));
  const int k = builder.Load(builder.AddInput("k", DType::kF32),
                             RowMajor(builder, key, kHead, builder.AxisAt(head)));
  const int v = builder.Load(builder.AddInput("v", DType::kF32),
                             RowMajor(builder, key, kHead, builder.AxisAt(out)));
  const int score =
      builder.Reduce(Reduction::kSum, builder.Binary(Opcode::kMultiply, q, k), {head});
  const int largest = builder.Reduce(Reduction::kMaximum, score, {keys});
  const int weight =
      builder.Unary(Opcode::kExponential, builder.Binary(Opcode::kSubtract, score, largest));
  const int total = builder.Reduce(Reduction::kSum, weight, {keys});
  const int share = builder.Binary(Opcode::kDivide, weight, total);
  const int y =
      builder.Reduce(Reduction::kSum, builder.Binary(Opcode::kMultiply, share, v), {keys});
  builder.Store(builder.AddOutput("y", DType::kF32),
                RowMajor(builder, query, kHead, builder.AxisAt(out)), y);
  return {std::move(builder).Finish(),
          {},
          {TestBuffer::Of(DType::kF32, Numbers(kQueries * kHead, -1, 1)),
           TestBuffer::Of(DType::kF32, Numbers(kKeys * kHead, -1, 1, 2)),
           TestBuffer::Of(DType::kF32, Numbers(kKeys * kHead, -1, 1, 3)),
           TestBuffer(DType::kF32, kQueries * kHead)}};
}

// One outer position: y[j, k] = x[j, k] / sum of x[j, :]. The loop of the store goes over j and k,
// and the sum within it goes over k again.
ProgramCase Shares() {
  constexpr int64_t kRows = 7;
  constexpr int64_t kColumns = 5;
  ProgramBuilder builder("shares");
  const int j = builder.AddInnerAxis(kRows);
  const int k = builder.AddInnerAxis(kColumns);
  const int index = RowMajor(builder, builder.AxisAt(j), kColumns, builder.AxisAt(k));
  const int x = builder.Load(builder.AddInput("x", DType::kF64), index);
  const int sum = builder.Reduce(Reduction::kSum, x, {k});
  builder.Store(builder.AddOutput("y", DType::kF64), index,
                builder.Binary(Opcode::kDivide, x, sum));
  const int last = builder.Reduce(Reduction::kLastArgMaximum, x, {j, k});
  builder.Store(builder.AddOutput("last", DType::kI64), builder.Integer(DType::kI64, 0), last);
  return {std::move(builder).Finish(),
          {},
          {TestBuffer::Of(DType::kF64, Numbers(kRows * kColumns, 1, 2)),
           TestBuffer(DType::kF64, kRows * kColumns), TestBuffer(DType::kI64, 1)}};
}

// A mean of three neighbours, which are missing at the ends; the result is transposed.
ProgramCase Neighbours(bool is_symbolic) {
  constexpr int64_t kRows = 9;
  constexpr int64_t kColumns = 45;
  std::vector<Symbol> symbols;
  if (is_symbolic) symbols = {{"rows", 1, 1000, 8, 1}, {"columns", 1, 1 << 30, 64, 1}};
  ProgramBuilder builder(is_symbolic ? "neighbours_of_symbols" : "neighbours", symbols);
  const Size rows = is_symbolic ? Size::Of(0) : Size(kRows);
  const Size columns = is_symbolic ? Size::Of(1) : Size(kColumns);
  const int row = builder.AxisAt(builder.AddOuterAxis(rows));
  const int column = builder.AxisAt(builder.AddOuterAxis(columns));
  const int window = builder.AddInnerAxis(3);
  const int at = builder.Binary(
      Opcode::kAdd, column,
      builder.Binary(Opcode::kSubtract, builder.AxisAt(window), builder.Integer(DType::kI64, 1)));
  const int is_there = builder.Binary(
      Opcode::kAnd, builder.Binary(Opcode::kLessOrEqual, builder.Integer(DType::kI64, 0), at),
      builder.Binary(Opcode::kLess, at, builder.SizeOf(columns)));
  const int index = builder.Binary(
      Opcode::kAdd, builder.Binary(Opcode::kMultiply, row, builder.SizeOf(columns)), at);
  const int x = builder.Load(builder.AddInput("x", DType::kF32), index, is_there);
  const int mean = builder.Binary(Opcode::kDivide, builder.Reduce(Reduction::kSum, x, {window}),
                                  builder.Constant(DType::kF32, 3));
  const int place = builder.Binary(
      Opcode::kAdd, builder.Binary(Opcode::kMultiply, column, builder.SizeOf(rows)), row);
  // Where the result is negative, the buffer keeps what it has.
  builder.Store(builder.AddOutput("y", DType::kF32), place, mean,
                builder.Binary(Opcode::kLessOrEqual, builder.Constant(DType::kF32, 0), mean));
  return {std::move(builder).Finish(),
          is_symbolic ? std::vector<int64_t>{kRows, kColumns} : std::vector<int64_t>{},
          {TestBuffer::Of(DType::kF32, Numbers(kRows * kColumns, -1, 1)),
           TestBuffer::Of(DType::kF32, Numbers(kRows * kColumns, 5, 6))}};
}

// Sums, smallest and largest of all elements of a bin, and their number, by atomic stores.
ProgramCase Bins(DType type) {
  constexpr int64_t kCount = 100;
  constexpr int64_t kBins = 7;
  ProgramBuilder builder(fmt::format("bins_of_{}", FactsOf(type).name));
  const int i = builder.AxisAt(builder.AddOuterAxis(kCount));
  const int x = builder.Load(builder.AddInput("x", type), i);
  const int bin = builder.Cast(DType::kI64, builder.Load(builder.AddInput("bin", DType::kI32), i));
  const int one = builder.Integer(DType::kI32, 1);
  builder.Store(builder.AddOutput("sum", type), bin, x, std::nullopt, StoreKind::kAtomicAdd);
  builder.Store(builder.AddOutput("smallest", type), bin, x, std::nullopt,
                StoreKind::kAtomicMinimum);
  builder.Store(builder.AddOutput("largest", type), bin, x, std::nullopt,
                StoreKind::kAtomicMaximum);
  builder.Store(builder.AddOutput("count", DType::kI32), builder.Integer(DType::kI64, 0), one,
                std::nullopt, StoreKind::kAtomicAdd);
  const std::vector<double> zeros(kBins, 0);
  return {std::move(builder).Finish(),
          {},
          {TestBuffer::Of(type, Numbers(kCount, -50, 50)),
           TestBuffer::Of(DType::kI32, Numbers(kCount, 0, kBins - 0.01, 2)),
           TestBuffer::Of(type, zeros), TestBuffer::Of(type, zeros), TestBuffer::Of(type, zeros),
           TestBuffer(DType::kI32, 1)}};
}

// Each row is added to one of a few, element by element, in a loop of the stores.
ProgramCase ScatterRows() {
  constexpr int64_t kRows = 20;
  constexpr int64_t kColumns = 33;
  constexpr int64_t kPlaces = 4;
  ProgramBuilder builder("scatter_rows");
  const int row = builder.AxisAt(builder.AddOuterAxis(kRows));
  const int column = builder.AxisAt(builder.AddInnerAxis(kColumns));
  const int x =
      builder.Load(builder.AddInput("x", DType::kF32), RowMajor(builder, row, kColumns, column));
  const int place =
      builder.Cast(DType::kI64, builder.Load(builder.AddInput("place", DType::kI32), row));
  builder.Store(builder.AddOutput("y", DType::kF32), RowMajor(builder, place, kColumns, column), x,
                std::nullopt, StoreKind::kAtomicAdd);
  return {std::move(builder).Finish(),
          {},
          {TestBuffer::Of(DType::kF32, Numbers(kRows * kColumns, -1, 1)),
           TestBuffer::Of(DType::kI32, Numbers(kRows, 0, kPlaces - 0.01, 2)),
           TestBuffer(DType::kF32, kPlaces * kColumns)}};
}

// Neighbours in memory are neighbours of the outer axis.
ProgramCase ColumnSums() {
  constexpr int64_t kRows = 75;
  constexpr int64_t kColumns = 50;
  ProgramBuilder builder("column_sums");
  const int column = builder.AxisAt(builder.AddOuterAxis(kColumns));
  const int axis = builder.AddInnerAxis(kRows);
  const int index = RowMajor(builder, builder.AxisAt(axis), kColumns, column);
  const int x = builder.Load(builder.AddInput("x", DType::kF32), index);
  const int sum = builder.Reduce(Reduction::kSum, x, {axis});
  const int last = builder.Reduce(Reduction::kLastArgMinimum, x, {axis});
  builder.Store(builder.AddOutput("sum", DType::kF32), column, sum);
  builder.Store(builder.AddOutput("last", DType::kI64), column, last);
  return {std::move(builder).Finish(),
          {},
          {TestBuffer::Of(DType::kF32, Numbers(kRows * kColumns, -1, 1)),
           TestBuffer(DType::kF32, kColumns), TestBuffer(DType::kI64, kColumns)}};
}

ProgramCase ScalarProgram() {
  ProgramBuilder builder("scalar");
  const int zero = builder.Integer(DType::kI64, 0);
  const int x = builder.Load(builder.AddInput("x", DType::kF16), zero);
  builder.Store(builder.AddOutput("y", DType::kF32), zero,
                builder.Unary(Opcode::kSquareRoot, builder.Cast(DType::kF32, x)));
  return {std::move(builder).Finish(),
          {},
          {TestBuffer::Of(DType::kF16, {2}), TestBuffer(DType::kF32, 1)}};
}

}  // namespace

std::vector<double> Numbers(int64_t count, double from, double to, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    // Not by a distribution of the library: those differ from one library to another.
    numbers.push_back(from + (to - from) * (random() / 4294967296.0));
  }
  return numbers;
}

int RowMajor(ProgramBuilder& builder, int row, int64_t columns, int column) {
  return builder.Binary(
      Opcode::kAdd, builder.Binary(Opcode::kMultiply, row, builder.Integer(DType::kI64, columns)),
      column);
}

std::vector<ProgramCase> LoopPrograms() {
  const Symbol batch{"batch", 1, 4096, 8, 1};
  const Symbol length{"length", 1, 1 << 20, 64, 1};
  const Symbol even{"even", 16, 1 << 20, 64, 64};
  std::vector<ProgramCase> cases;
  cases.push_back(RowReductions("rows", DType::kF32, {9, 9}, {45, 45}));
  cases.push_back(RowReductions("long_rows", DType::kF32, {3, 3}, {5000, 5000}));
  cases.push_back(RowReductions("rows_of_f64", DType::kF64, {4, 4}, {64, 64}));
  cases.push_back(RowReductions("rows_of_bool", DType::kBool, {70, 70}, {30, 30}));
  for (DType type : {DType::kI8, DType::kI32, DType::kI64}) {
    cases.push_back(
        RowReductions(fmt::format("rows_of_{}", FactsOf(type).name), type, {6, 6}, {19, 19}));
  }
  cases.push_back(RowReductions("symbolic_rows", DType::kF32, {Size::Of(0), 5}, {Size::Of(1), 150},
                                {batch, length}, {5, 150}));
  cases.push_back(RowReductions("even_rows", DType::kI32, {Size::Of(0), 5}, {Size::Of(1), 128},
                                {batch, even}, {5, 128}));
  cases.push_back(RowReductions("one_row", DType::kF32, {1, 1}, {1000, 1000}));
  cases.push_back(Softmax("softmax", DType::kF16, {11, 11}, {100, 100}, false));
  cases.push_back(Softmax("softmax_in_place", DType::kF32, {5, 5}, {300, 300}, true));
  cases.push_back(Softmax("long_softmax_in_place", DType::kF32, {2, 2}, {4500, 4500}, true));
  cases.push_back(Softmax("symbolic_softmax", DType::kBF16, {Size::Of(0), 6}, {Size::Of(1), 130},
                          false, {batch, length}, {6, 130}));
  cases.push_back(Product(DType::kF16, 13, 20, 17));
  cases.push_back(Product(DType::kF8E4M3, 4, 32, 8));
  cases.push_back(Attention());
  cases.push_back(Shares());
  cases.push_back(Neighbours(false));
  cases.push_back(Neighbours(true));
  for (DType type : {DType::kI32, DType::kU64, DType::kF32, DType::kF64})
    cases.push_back(Bins(type));
  cases.push_back(ScatterRows());
  cases.push_back(ColumnSums());
  cases.push_back(ScalarProgram());
  return cases;
}

}  // namespace kiln::graph
