// Products of matrices in LoopPrograms.
#pragma once

#include <optional>

#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/emit/triton/index_arithmetic.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph::triton {

// What a matrix unit multiplies: two factors of one type. `left` and `right` are instructions,
// before they are cast to the type of the sum. 8-bit floats that the target does not take are
// multiplied as f16, which has all of their numbers.
struct Factors {
  int left = 0;
  int right = 0;
  DType type = DType::kF16;
};

// A sum over `depth` of `left`, which depends on rows and depth, times `right`, which depends on
// depth and columns.
struct Product {
  int sum = 0;  // the reduction
  Factors factors;
  Axes batch;  // outer axes of both factors, and of none
  Axes rows;
  Axes columns;
  Axes depth;
};

// The operand, where the instruction casts it without loss to the type of a sum.
int FactorBeforeCast(const LoopProgram& program, int i);

// The factors of a sum of products, in the order of the multiplication. Nothing where the
// instruction is no such sum, or no matrix unit takes its type.
std::optional<Factors> FactorsOf(const LoopProgram& program, int sum, const EmitOptions& options);

// Nothing where the program has another reduction, or no rows or columns.
std::optional<Product> FindProduct(const LoopProgram& program, const EmitOptions& options);

}  // namespace kiln::graph::triton
