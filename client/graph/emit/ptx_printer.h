// Prints one LoopProgram for EmitPtx: a thread for each group of positions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/emit/ptx_body.h"
#include "client/graph/emit/thread_layout.h"

namespace kiln::graph {

class PtxPrinter {
 public:
  PtxPrinter(const LoopProgram& program, const EmitOptions& options);

  absl::StatusOr<EmittedKernel> Print();

 private:
  // How many copies of a value a group of positions needs.
  enum class Need : uint8_t { kNone, kFirst, kAll };

  const Instruction& At(int value) const {
    return program_.instructions[static_cast<size_t>(value)];
  }
  DType TypeOf(int value) const { return At(value).type; }
  std::string Value(int value) const;

  // ptx_printer.cc: the kernel, positions, values.
  absl::Status Groups(const Size& total);
  absl::Status Positions(int elements);
  void FindCopies();
  std::string Parameters() const;
  void Prologue(const Size& total);
  std::string SizeValue(const Size& size);
  void Position(const std::string& to, int value);
  absl::Status One(const Instruction& instruction, int value, bool is_wide);

  // ptx_memory.cc: loads and stores.
  std::string Address(const Instruction& access);
  std::string_view Cache(const Instruction& load) const;
  std::vector<std::string> Elements(int value);
  void Load(const std::string& to, const Instruction& load);
  void WideLoad(int value);
  absl::Status Store(const Instruction& store);
  void WideStore(const Instruction& store);
  absl::Status Atomic(const Instruction& store, const std::string& guard,
                      const std::string& address, const std::string& value);

  const LoopProgram& program_;
  const ThreadLayout layout_;
  PtxBody body_;
  std::vector<std::string> positions_;  // of a group
  size_t elements_ = 1;                 // of the groups that are being printed
  size_t element_ = 0;                  // the one that is being printed
  std::vector<bool> varies_;            // by instruction: whether it differs within a group
  std::vector<Need> needs_;
  std::vector<std::string> symbols_;
  std::vector<std::string> buffers_;
};

}  // namespace kiln::graph
