// What is the same for all instructions of an opcode, in one table.
#pragma once

#include <optional>
#include <string_view>

#include "client/graph/program/loop_program.h"

namespace kiln::graph {

enum class OpcodeKind : uint8_t {
  kLeaf,     // constant, size, axis
  kMemory,   // load and store
  kMove,     // cast, bit cast, select: any type
  kCompute,  // operands have one type, which computes: f32 for f16, i8 for i4
  kReduce,
};

struct OpcodeFacts {
  Opcode opcode;
  std::string_view name;  // "add": in ToText and in expressions of the operator table
  OpcodeKind kind;
  int operands_min;
  int operands_max;
  // What the first operand may be, for kCompute and kReduce.
  bool takes_bool;
  bool takes_integer;
  bool takes_float;
  bool gives_bool;  // the operand's type otherwise
};

const OpcodeFacts& FactsOf(Opcode opcode);
std::optional<Opcode> ParseOpcode(std::string_view name);
// Division, roots, powers and transcendental functions: several instructions of a GPU, or one of
// the units that are rarer than those of additions.
bool IsSpecialFunction(Opcode opcode);
std::string_view NameOf(Reduction reduction);
bool IsArgReduction(Reduction reduction);
// What puts two elements of a reduction together, unless it is of arguments.
Opcode OpcodeOf(Reduction reduction);
// What puts an element and what is stored upon it together, where the store is atomic.
Opcode OpcodeOf(StoreKind store);

}  // namespace kiln::graph
