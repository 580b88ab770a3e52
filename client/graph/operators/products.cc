// Products of matrices, and their determinants. What is naive here is tiled by emitters.
#include <fmt/format.h>

#include <bit>
#include <utility>

#include "client/graph/operators/element_emitter.h"
#include "client/graph/operators/quantization.h"
#include "client/graph/operators/rules.h"

namespace kiln::graph {
namespace {

bool IsTransposed(const Operands& operands, std::string_view attribute) {
  return operands.Int(attribute, 0) != 0;
}

// As matrices: rows and columns of an input, transposed or not.
struct Matrix {
  Shape batch;
  Size rows;
  Size columns;
};

// A list is a row on the left, a column on the right.
Matrix MatrixOf(const Operands& operands, size_t input, std::string_view transposed) {
  const Shape& shape = operands.ShapeOf(input);
  if (shape.size() == 1) {
    return input == 0 ? Matrix{{}, 1, shape[0]} : Matrix{{}, shape[0], 1};
  }
  Matrix matrix{{shape.begin(), shape.end() - 2}, shape[shape.size() - 2], shape.back()};
  if (IsTransposed(operands, transposed)) std::swap(matrix.rows, matrix.columns);
  return matrix;
}

// `right`: the input that is the right factor.
absl::StatusOr<Outputs> ProductOutputs(const Operands& operands, size_t right) {
  if (operands.Rank(0) < 1 || operands.Rank(right) < 1) return operands.Error("takes no scalars");
  const Matrix a = MatrixOf(operands, 0, "transA");
  const Matrix b = MatrixOf(operands, right, "transB");
  auto shape = BroadcastShape(a.batch, b.batch);
  if (a.columns != b.rows || !shape) {
    return operands.Error(fmt::format("{} and {} do not fit", operands.Text(operands.ShapeOf(0)),
                                      operands.Text(operands.ShapeOf(right))));
  }
  if (operands.Rank(0) > 1) shape->push_back(a.rows);
  if (operands.Rank(right) > 1) shape->push_back(b.columns);
  return Outputs{{operands.TypeOf(0), *std::move(shape)}};
}

absl::StatusOr<Outputs> MatMulOutputs(const Operands& operands) {
  return ProductOutputs(operands, 1);
}

absl::StatusOr<Outputs> GemmOutputs(const Operands& operands) {
  if (operands.Rank(0) != 2 || operands.Rank(1) != 2) return operands.Error("takes matrices");
  auto outputs = MatMulOutputs(operands);
  if (outputs.ok() && operands.Has(2) &&
      BroadcastShape((*outputs)[0].shape, operands.ShapeOf(2)) != (*outputs)[0].shape) {
    return operands.Error("C does not broadcast to the product");
  }
  return outputs;
}

absl::StatusOr<Outputs> LinearOutputs(const Operands& operands) {
  if (operands.Rank(0) < 1 || operands.Rank(1) != 2 ||
      operands.ShapeOf(0).back() != operands.ShapeOf(1)[1]) {
    return operands.Error("the weight is a matrix with a column for each input feature");
  }
  Shape shape = operands.ShapeOf(0);
  shape.back() = operands.ShapeOf(1)[0];
  return Outputs{{operands.TypeOf(0), std::move(shape)}};
}

absl::StatusOr<Outputs> MatMulIntegerOutputs(const Operands& operands) {
  auto outputs = MatMulOutputs(operands);
  if (outputs.ok()) (*outputs)[0].type = DType::kI32;
  return outputs;
}

// Where the factors of one product lie.
struct ProductFactors {
  Position a;
  Position b;
  Loop loop;
};

ProductFactors FactorsAt(ElementEmitter& e, const Position& position, size_t right = 1) {
  const bool has_row = e.Rank(0) > 1;
  const bool has_column = e.Rank(right) > 1;
  const size_t batch = position.size() - (has_row ? 1 : 0) - (has_column ? 1 : 0);
  ProductFactors factors;
  factors.loop = e.NewLoop(MatrixOf(e, 0, "transA").columns);
  factors.a = Position(position.begin(), position.begin() + static_cast<std::ptrdiff_t>(batch));
  factors.b = factors.a;
  if (has_row) factors.a.push_back(position[batch]);
  factors.a.push_back(factors.loop.at);
  factors.b.push_back(factors.loop.at);
  if (has_column) factors.b.push_back(position.back());
  const auto swap_last = [](Position& matrix) {
    std::swap(matrix[matrix.size() - 2], matrix.back());
  };
  if (has_row && IsTransposed(e, "transA")) swap_last(factors.a);
  if (has_column && IsTransposed(e, "transB")) swap_last(factors.b);
  // Broadcast alone in the batch: a matrix of one row has row 0 anyway.
  factors.a = e.Broadcast(0, factors.a);
  factors.b = e.Broadcast(right, factors.b);
  return factors;
}

int ProductAt(ElementEmitter& e, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const ProductFactors factors = FactorsAt(e, position);
  const int a = e.ReadAs(type, 0, factors.a);  // before b, whatever compiler builds Kiln
  const int product = e.Multiply(a, e.ReadAs(type, 1, factors.b));
  return e.Sum(product, {factors.loop});
}

int Times(const ElementEmitter& e, double factor, int x) {
  return factor == 1 ? x : e.Multiply(e.Number(e.TypeOfValue(x), factor), x);
}

// Integers are scaled by numbers that are no integers, as floats.
int GemmElement(ElementEmitter& e, int, const Position& position) {
  const double alpha = e.Float("alpha", 1);
  const double beta = e.Float("beta", 1);
  int sum = ProductAt(e, position);
  const bool is_whole = alpha == 1 && beta == 1;
  if (!is_whole && !IsFloat(e.TypeOfValue(sum))) sum = e.Cast(DType::kF64, sum);
  sum = Times(e, alpha, sum);
  if (!e.Has(2) || beta == 0) return sum;
  const int c = e.ReadAs(e.TypeOfValue(sum), 2, e.Broadcast(2, position));
  return e.Add(sum, Times(e, beta, c));
}

int LinearElement(ElementEmitter& e, int, const Position& position) {
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  const Loop loop = e.NewLoop(e.ShapeOf(0).back());
  Position source = position;
  source.back() = loop.at;
  const int weight = e.ReadAs(type, 1, {position.back(), loop.at});
  const int sum = e.Sum(e.Multiply(e.ReadAs(type, 0, source), weight), {loop});
  if (!e.Has(2)) return sum;
  return e.Add(sum, e.ReadAs(type, 2, e.Broadcast(2, {position.back()})));
}

// A zero point or scale: one for all, or one for each row of A and each column of B.
int ParameterAt(ElementEmitter& e, DType type, size_t input, bool is_of_rows,
                const Position& position) {
  Position at = position;
  if (e.Rank(input) <= 1) {
    const bool is_row = is_of_rows && position.size() > 1;
    at = Position(static_cast<size_t>(e.Rank(input)),
                  is_row ? position[position.size() - 2] : position.back());
  }
  return e.ReadAs(type, input, e.Broadcast(input, at));
}

// Less its zero point.
int Centered(ElementEmitter& e, size_t input, size_t zero, const Position& position) {
  const int x = e.ReadAs(DType::kI32, input, position);
  if (!e.Has(zero)) return x;
  return e.Subtract(x, ParameterAt(e, DType::kI32, zero, input == 0, position));
}

int MatMulIntegerElement(ElementEmitter& e, int, const Position& position) {
  const ProductFactors factors = FactorsAt(e, position);
  const int a = Centered(e, 0, 2, factors.a);
  const int product = e.Multiply(a, Centered(e, 1, 3, factors.b));
  return e.Sum(product, {factors.loop});
}

// The inputs: A, its scale and zero point, the same of B, scale and zero point of the output.
absl::StatusOr<Outputs> QLinearMatMulOutputs(const Operands& operands) {
  if (!IsInteger(operands.TypeOf(0)) || !IsInteger(operands.TypeOf(3))) {
    return operands.Missing("factors that are no integers are not lowered");
  }
  auto outputs = ProductOutputs(operands, 3);
  if (outputs.ok()) (*outputs)[0].type = operands.TypeOf(7);
  return outputs;
}

int QLinearMatMulElement(ElementEmitter& e, int, const Position& position) {
  const ProductFactors factors = FactorsAt(e, position, 3);
  const int a = Centered(e, 0, 2, factors.a);
  const int product = e.Multiply(a, Centered(e, 3, 5, factors.b));
  const int sum = e.Cast(DType::kF32, e.Sum(product, {factors.loop}));
  const auto parameter = [&](size_t input) {
    return ParameterAt(e, DType::kF32, input, input != 4, position);
  };
  const int scale = e.Divide(e.Multiply(parameter(1), parameter(4)), parameter(6));
  return QuantizedTo(e, e.Output(0).type, e.Multiply(sum, scale), parameter(7));
}

// n * 2^(n - 1) products: 1024 for the largest matrix.
constexpr int64_t kRowsMax = 8;

absl::StatusOr<Outputs> DetOutputs(const Operands& operands) {
  const Shape& shape = operands.ShapeOf(0);
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2]) {
    return operands.Error("takes square matrices");
  }
  const auto rows = shape.back().Constant();
  if (!rows || *rows > kRowsMax) {
    return operands.Missing("matrices of more than 8 rows are not lowered");
  }
  return Outputs{{operands.TypeOf(0), {shape.begin(), shape.end() - 2}}};
}

// Laplace's expansion, row by row, over sets of columns: no pivots and no division. minors[set] is
// the determinant of the first rows, as many as the set has columns.
int DetElement(ElementEmitter& e, int, const Position& position) {
  const int64_t size = *e.ShapeOf(0).back().Constant();
  const auto columns = static_cast<unsigned>(size);
  const DType type = FactsOf(e.TypeOf(0)).accumulate;
  std::vector<int> elements;
  for (int64_t i = 0; i < size * size; ++i) {
    Position source = position;
    source.push_back(e.Of(i / size));
    source.push_back(e.Of(i % size));
    elements.push_back(e.ReadAs(type, 0, source));
  }
  std::vector<int> minors(size_t{1} << columns, e.Number(type, 1));
  for (unsigned set = 1; set < minors.size(); ++set) {
    const auto row = static_cast<unsigned>(std::popcount(set)) - 1;
    int sum = e.Number(type, 0);
    for (unsigned column = 0; column < columns; ++column) {
      if ((set >> column & 1U) == 0) continue;
      const int minor = minors[set ^ (1U << column)];
      const int product = e.Multiply(elements[row * columns + column], minor);
      const bool is_odd = std::popcount(set >> (column + 1)) % 2 != 0;
      sum = is_odd ? e.Subtract(sum, product) : e.Add(sum, product);
    }
    minors[set] = sum;
  }
  return minors.back();
}

constexpr NamedRule kProducts[] = {
    {"MatMul", {Infer<MatMulOutputs>, Emit<GemmElement>}},
    {"FusedMatMul", {Infer<MatMulOutputs>, Emit<GemmElement>}},
    {"Gemm", {Infer<GemmOutputs>, Emit<GemmElement>}},
    {"Linear", {Infer<LinearOutputs>, Emit<LinearElement>}},
    {"Det", {Infer<DetOutputs>, Emit<DetElement>}},
    {"MatMulInteger", {Infer<MatMulIntegerOutputs>, Emit<MatMulIntegerElement>}},
    {"QLinearMatMul", {Infer<QLinearMatMulOutputs>, Emit<QLinearMatMulElement>}},
};

}  // namespace

std::span<const NamedRule> ProductRules() { return kProducts; }

}  // namespace kiln::graph
