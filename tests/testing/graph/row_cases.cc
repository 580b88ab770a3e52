// Programs whose threads share rows, or take several elements.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "client/graph/program/opcode.h"
#include "client/graph/program/program_builder.h"
#include "tests/testing/graph/program_cases.h"

namespace kiln::graph {
namespace {

Symbol UpTo(std::string name, int64_t max) {
  return {.name = std::move(name), .min = 1, .max = max, .typical = max, .multiple_of = 1};
}

int At(ProgramBuilder& make, int row, const Size& columns, int column) {
  const int begin = make.Binary(Opcode::kMultiply, row, make.SizeOf(columns));
  return make.Binary(Opcode::kAdd, begin, column);
}

// Sums are exact in every order: the elements are small multiples of 1/8.
ProgramCase CenteredRows(int64_t columns, DType type) {
  const int64_t rows = columns > 10'000 ? 1 : 3;
  ProgramBuilder make(fmt::format("rows_centered_{}_{}", columns, FactsOf(type).name),
                      {UpTo("columns", columns)});
  const int x = make.AddInput("x", type);
  const int y = make.AddOutput("y", type);
  const int sums = make.AddOutput("sums", DType::kF32);
  const int products = make.AddOutput("products", DType::kF32);
  const Size width = Size::Of(0);
  const int row = make.AxisAt(make.AddOuterAxis(rows));
  const int axis = make.AddInnerAxis(width);
  const int at = At(make, row, width, make.AxisAt(axis));
  const int value = make.Cast(DType::kF32, make.Load(x, at));
  const int max = make.Reduce(Reduction::kMaximum, value, {axis});
  const int sum = make.Reduce(Reduction::kSum, value, {axis});
  const int centered = make.Binary(Opcode::kSubtract, value, max);
  const int product =
      make.Reduce(Reduction::kSum, make.Binary(Opcode::kMultiply, centered, value), {axis});
  make.Store(y, at, make.Cast(type, centered));
  make.Store(sums, row, sum);
  make.Store(products, row, product);
  ProgramCase test;
  test.program = std::move(make).Finish();
  test.symbols = {columns};
  test.buffers = {Numbers(type, rows * columns), TestBuffer(type, rows * columns),
                  TestBuffer(DType::kF32, rows), TestBuffer(DType::kF32, rows)};
  return test;
}

// Over two axes; extremes come several times.
ProgramCase ReducedRows(Reduction reduction, DType type, bool has_nan) {
  const bool is_argument = IsArgReduction(reduction);
  const DType result = is_argument ? DType::kI64 : type;
  ProgramBuilder make(
      fmt::format("rows_{}_{}{}", NameOf(reduction), FactsOf(type).name, has_nan ? "_nan" : ""));
  const int x = make.AddInput("x", type);
  const int y = make.AddOutput("y", result);
  const int row = make.AxisAt(make.AddOuterAxis(2));
  const int a = make.AddInnerAxis(11);
  const int b = make.AddInnerAxis(53);
  const int at = At(make, At(make, row, 11, make.AxisAt(a)), 53, make.AxisAt(b));
  make.Store(y, row, make.Reduce(reduction, make.Load(x, at), {a, b}));
  ProgramCase test;
  test.buffers = {Numbers(type, 2 * 11 * 53, 7, 19), TestBuffer(result, 2)};
  for (const int64_t place : {70, 300, 500}) {
    if (has_nan) test.buffers[0].SetNumber(place, std::nan(""));
  }
  test.program = std::move(make).Finish();
  return test;
}

// Neighbours in memory are of different columns.
ProgramCase ColumnSums() {
  ProgramBuilder make("rows_of_columns");
  const int x = make.AddInput("x", DType::kI32);
  const int y = make.AddOutput("y", DType::kI32);
  const int column = make.AxisAt(make.AddOuterAxis(5));
  const int axis = make.AddInnerAxis(700);
  const int value = make.Load(x, At(make, make.AxisAt(axis), 5, column));
  make.Store(y, column, make.Reduce(Reduction::kSum, value, {axis}));
  ProgramCase test;
  test.program = std::move(make).Finish();
  test.buffers = {Numbers(DType::kI32, 3500), TestBuffer(DType::kI32, 5)};
  return test;
}

// An atomic store in a loop that threads share, and one outside of it.
ProgramCase Histogram() {
  ProgramBuilder make("rows_histogram");
  const int x = make.AddInput("x", DType::kI64);
  const int counts = make.AddOutput("counts", DType::kI32);
  const int total = make.AddOutput("total", DType::kI32);
  const int row = make.AxisAt(make.AddOuterAxis(3));
  const int axis = make.AddInnerAxis(100);
  const int one = make.Constant(DType::kI32, 1);
  make.Store(counts, make.Load(x, At(make, row, 100, make.AxisAt(axis))), one, std::nullopt,
             StoreKind::kAtomicAdd);
  make.Store(total, make.SizeOf(0), one, std::nullopt, StoreKind::kAtomicAdd);
  ProgramCase test;
  test.program = std::move(make).Finish();
  test.buffers = {Numbers(DType::kI64, 300, 7, 23), TestBuffer(DType::kI32, 23),
                  TestBuffer(DType::kI32, 1)};
  return test;
}

// y = x + bias, with rows of y `stride` apart.
ProgramCase BiasedRows(DType from, DType to, int64_t columns, int64_t stride) {
  ProgramBuilder make(
      fmt::format("elements_{}_{}_{}_{}", FactsOf(from).name, FactsOf(to).name, columns, stride));
  const int x = make.AddInput("x", from);
  const int bias = make.AddInput("bias", from);
  const int y = make.AddOutput("y", to);
  const int row = make.AxisAt(make.AddOuterAxis(9));
  const int column = make.AxisAt(make.AddOuterAxis(columns));
  const DType sum_type = FactsOf(from).compute;
  const int one = make.Cast(sum_type, make.Load(x, At(make, row, columns, column)));
  const int other = make.Cast(sum_type, make.Load(bias, column));
  make.Store(y, At(make, row, stride, column),
             make.Cast(to, make.Binary(Opcode::kAdd, one, other)));
  ProgramCase test;
  test.program = std::move(make).Finish();
  test.buffers = {Numbers(from, 9 * columns), Numbers(from, columns, 5, 19),
                  TestBuffer(to, 9 * stride)};
  return test;
}

// A symbol says how many elements there are; the last ones are no whole group.
ProgramCase SymbolicElements(int64_t count, int64_t multiple_of) {
  Symbol symbol = UpTo("n", 1 << 20);
  symbol.multiple_of = multiple_of;
  ProgramBuilder make(fmt::format("elements_{}_of_{}", count, multiple_of), {symbol});
  const int x = make.AddInput("x", DType::kF16);
  const int y = make.AddOutput("y", DType::kBool);
  const int at = make.AxisAt(make.AddOuterAxis(Size::Of(0)));
  const int value = make.Cast(DType::kF32, make.Load(x, at));
  make.Store(y, at, make.Binary(Opcode::kLess, value, make.Constant(DType::kF32, 0.5)));
  ProgramCase test;
  test.program = std::move(make).Finish();
  test.symbols = {count};
  test.buffers = {Numbers(DType::kF16, count), TestBuffer(DType::kBool, count)};
  return test;
}

}  // namespace

std::vector<ProgramCase> RowCases() {
  std::vector<ProgramCase> cases;
  for (const int64_t columns : {1, 31, 32, 33, 257, 1021, 4096, 100'000}) {
    cases.push_back(CenteredRows(columns, columns % 2 == 0 ? DType::kF32 : DType::kF16));
  }
  for (int number = 0; number <= static_cast<int>(Reduction::kLastArgMaximum); ++number) {
    const auto reduction = static_cast<Reduction>(number);
    const bool is_logic = reduction == Reduction::kAnd || reduction == Reduction::kOr;
    cases.push_back(ReducedRows(reduction, is_logic ? DType::kBool : DType::kI32, false));
    if (is_logic || reduction == Reduction::kProduct) continue;
    cases.push_back(ReducedRows(reduction, DType::kF32, false));
    cases.push_back(ReducedRows(reduction, DType::kF64, true));
  }
  cases.push_back(ColumnSums());
  cases.push_back(Histogram());
  cases.push_back(BiasedRows(DType::kF32, DType::kF32, 20, 20));
  cases.push_back(BiasedRows(DType::kF16, DType::kF32, 20, 24));
  cases.push_back(BiasedRows(DType::kF16, DType::kF16, 24, 40));
  cases.push_back(BiasedRows(DType::kI8, DType::kI32, 21, 22));
  cases.push_back(BiasedRows(DType::kF32, DType::kF64, 21, 21));
  for (const int64_t count : {1, 7, 8, 1023, 1025}) cases.push_back(SymbolicElements(count, 1));
  cases.push_back(SymbolicElements(1024, 8));
  return cases;
}

}  // namespace kiln::graph
