// Programs with inputs, for tests that hold a back end against the interpreter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/program/loop_program.h"
#include "tests/testing/graph/program_interpreter.h"

namespace kiln::graph {

struct ProgramCase {
  LoopProgram program;  // its name is unique among all cases
  std::vector<int64_t> symbols;
  std::vector<TestBuffer> buffers;
};

// Elementwise, without inner axes: each opcode with each type that it takes, each cast and bit
// cast.
std::vector<ProgramCase> OpcodeCases();
// Each reduction with each type.
std::vector<ProgramCase> ReductionCases();
// Softmax, matrix products, gathers, atomic stores, symbolic and empty axes, and the like.
std::vector<ProgramCase> ComposedCases();
// Rows that threads share, of 1 to 100,000 elements, and elements that threads take in groups.
std::vector<ProgramCase> RowCases();

// Small numbers of both signs for floats, from 0 for the rest.
TestBuffer Numbers(DType type, int64_t count, int64_t factor = 7, int64_t modulus = 23);

// What buffers have to hold after the program ran: the interpreter's word.
absl::StatusOr<std::vector<TestBuffer>> Expected(const ProgramCase& test);
// Empty, or the first elements that differ. Floats of 32 and 64 bits may differ by some steps of
// their last place, since functions differ between machines, and sums between orders.
std::string Difference(const TestBuffer& expected, const TestBuffer& actual);

}  // namespace kiln::graph
