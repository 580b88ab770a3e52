// Runs a LoopProgram on buffers in memory, one instruction after the other: what every back end is
// held against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/graph/program/loop_program.h"

namespace kiln::graph {

// The elements of one buffer, as they lie in memory: two of 4 bits in a byte, low bits first.
class TestBuffer {
 public:
  TestBuffer(DType type, int64_t size);
  static TestBuffer Of(DType type, const std::vector<double>& numbers);

  DType type() const { return type_; }
  int64_t size() const;
  std::vector<uint8_t>& bytes() { return bytes_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

  // An element as its bits; integers and bools are extended to 64 bits by their sign.
  uint64_t Bits(int64_t index) const;
  void SetBits(int64_t index, uint64_t bits);
  // An element as a number; Set rounds to the buffer's type.
  double Number(int64_t index) const;
  void SetNumber(int64_t index, double number);
  std::vector<double> Numbers() const;

 private:
  DType type_;
  std::vector<uint8_t> bytes_;
};

// INVALID_ARGUMENT for a program that WhatIsWrong names; OUT_OF_RANGE, with the instruction, for an
// access beyond a buffer. Programs have a buffer of u8 for elements of 4 bits.
absl::Status Interpret(const LoopProgram& program, const std::vector<int64_t>& symbols,
                       std::vector<TestBuffer>& buffers);

}  // namespace kiln::graph
