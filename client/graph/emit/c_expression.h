// C expressions of single instructions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/graph/emit/c_dialect.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// The type of a variable; narrow floats are their bits.
std::string_view CType(DType type);
// The type of an element in memory: a bool takes a u8.
std::string_view CStorageType(DType type);

std::string CConstant(const CDialect& dialect, const Instruction& constant);
// The value with which a reduction begins, by nothing; and the value after another element.
std::string CIdentity(const CDialect& dialect, Reduction reduction, DType type);
std::string CSize(const Size& size, const std::vector<Symbol>& symbols);
// The name of a symbol, and of a buffer, in the text.
std::string CSymbol(std::string_view name);
std::string CBuffer(std::string_view name);

std::string CCast(DType to, DType from, const std::string& x);

class CExpression {
 public:
  CExpression(const CDialect& dialect, bool fast_math) : dialect_(dialect), fast_(fast_math) {}

  // `type` is that of the operands.
  std::string Binary(Opcode opcode, DType type, const std::string& x, const std::string& y) const;
  // Anything that computes or moves; operands are variables or literals.
  std::string Of(const Instruction& instruction, DType operand_type,
                 const std::vector<std::string>& operands) const;

 private:
  std::string Unary(Opcode opcode, DType type, const std::string& x) const;
  std::string BitCast(DType to, DType from, const std::string& x) const;
  std::string Function(Opcode opcode, DType type, std::string_view name,
                       const std::string& operands) const;

  const CDialect& dialect_;
  const bool fast_;
};

}  // namespace kiln::graph
