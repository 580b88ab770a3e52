// Instructions of PTX for instructions of a LoopProgram.
//
// Registers are numbered by the instruction whose value they have, further ones behind them: %p of
// bools; %r of all that has up to 32 bits and is no float, extended to 32 by its sign, and of fp8's
// bits; %d of 64-bit integers; %h of the bits of f16 and bf16; %f and %g of f32 and f64.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

class PtxBody {
 public:
  PtxBody(size_t instructions, bool fast_math) : next_(instructions), fast_(fast_math) {
    text_.reserve(4096);
  }

  template <typename... Arguments>
  void Line(fmt::format_string<Arguments...> line, Arguments&&... arguments) {
    text_ += "  ";
    fmt::format_to(std::back_inserter(text_), line, std::forward<Arguments>(arguments)...);
    text_ += '\n';
  }

  void Label(std::string_view name) { fmt::format_to(std::back_inserter(text_), "{}:\n", name); }

  static std::string Register(DType type, size_t number);
  std::string New(DType type) { return Register(type, next_++); }

  void Constant(const std::string& to, const Instruction& constant);
  // UNIMPLEMENTED where PTX has no such cast.
  absl::Status Cast(DType to_type, const std::string& to, DType from_type, const std::string& from);
  void BitCast(DType to_type, const std::string& to, DType from_type, const std::string& from);
  void Select(DType type, const std::string& to, const std::string& condition,
              const std::string& one, const std::string& other);
  // UNIMPLEMENTED, with the opcode's name, for what PTX lacks. `type` is that of the operands.
  absl::Status Unary(Opcode opcode, DType type, const std::string& to, const std::string& x);
  absl::Status Binary(Opcode opcode, DType type, const std::string& to, const std::string& x,
                      const std::string& y);
  void MultiplyAdd(DType type, const std::string& to, const std::string& x, const std::string& y,
                   const std::string& z);

  const std::string& text() const { return text_; }
  std::string Declarations() const;

 private:
  void Normalize(DType type, const std::string& value);
  absl::Status FloatUnary(Opcode opcode, DType type, const std::string& to, const std::string& x);
  void Exponential(const std::string& to, const std::string& x);
  void Extreme(Opcode opcode, DType type, const std::string& to, const std::string& x,
               const std::string& y);
  void FloorDivision(Opcode opcode, DType type, const std::string& to, const std::string& x,
                     const std::string& y);
  void Shift(Opcode opcode, DType type, const std::string& to, const std::string& x,
             const std::string& y);

  std::string text_;
  size_t next_;
  const bool fast_;
};

// UNIMPLEMENTED.
absl::Status MissingInPtx(std::string_view what);
// "f32", "s64", "u32": the type of an instruction that computes with it.
std::string_view PtxType(DType type);

}  // namespace kiln::graph
