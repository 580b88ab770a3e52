// What differs between the languages that c_text prints, as data.
//
// The printed text spells types i8 … u64, f32, f64, which the prelude defines. Narrow floats are
// their bits: u16 for f16 and bf16, u8 for fp8. Functions that the text brings along begin with
// "kiln_"; only those that it calls are printed.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "client/graph/program/loop_program.h"

namespace kiln::graph {

struct CAtomics {
  std::string_view add;
  std::string_view minimum;
  std::string_view maximum;
  std::string_view compare_exchange;
};

struct CDialect {
  std::string_view prelude;
  std::string_view kernel;    // in front of the kernel's name; {} is the number of threads
  std::string_view function;  // in front of a function's type
  std::string_view global;    // in front of the type that a pointer to a buffer points to
  std::string_view restrict;  // behind the star of a pointer to what is only read
  std::string_view block;     // the number of this block, and of this thread in it
  std::string_view thread;
  std::string_view shared;  // in front of the type of a variable that a block has
  std::string_view barrier;
  int lanes;                     // threads that exchange values without memory: 1 where none do
  std::string_view exchanged;    // the {} of the thread whose number differs by the bit `step`
  std::string_view f32_suffix;   // of a mathematical function for f32: expf
  std::string_view bits_of_f32;  // functions between floats and their bits
  std::string_view f32_of_bits;
  std::string_view bits_of_f64;
  std::string_view f64_of_bits;
  std::span<const std::string_view> f16_functions;  // kiln_f16_to_f32, kiln_f32_to_f16
  CAtomics atomics_32;
  CAtomics atomics_64;
  bool adds_floats;  // whether `add` of both takes floats
  // What f32 takes instead with fast_math; kDivide is a function of two operands.
  std::span<const std::pair<Opcode, std::string_view>> fast_functions;
  std::string_view blocks = "";  // how many there are
  // Functions for stages (emit/stages.h): kiln_grid_open, kiln_grid_barrier. "": it has none.
  std::string_view grid_barrier = "";
};

}  // namespace kiln::graph
