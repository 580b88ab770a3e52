// Prints one LoopProgram for c_text. In a block that shares its positions, the outermost loops are
// shared, and every thread computes what is outside of loops.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/graph/emit/c_dialect.h"
#include "client/graph/emit/c_expression.h"
#include "client/graph/emit/emitted_kernel.h"
#include "client/graph/emit/thread_layout.h"

namespace kiln::graph {

// Types and functions that stand in front of a kernel. Each appears once in the source.
struct CDeclarations {
  std::set<std::string> types;
  std::map<std::string, std::string> functions;
};

std::string CParameters(const LoopProgram& program, const CDialect& dialect);
// The source: what `kernel` needs, and the kernel.
std::string WithDeclarations(const CDialect& dialect, const CDeclarations& declarations,
                             const std::string& kernel);

class CPrinter {
 public:
  // `threads`: of a block; 0: as suits the program.
  CPrinter(const LoopProgram& program, const CDialect& dialect, const EmitOptions& options,
           int threads = 0);

  absl::StatusOr<EmittedKernel> Print();
  // Statements that compute the whole program with any number of blocks. REQUIRES: `threads`.
  absl::StatusOr<std::string> PrintStage();
  GridFactor Grid() const;
  int threads() const { return layout_.threads; }
  // What the printed text needs.
  const CDeclarations& declarations() const { return declarations_; }

 private:
  // A part of the text whose variables are visible together: the body of the kernel, or of a loop.
  struct Scope {
    std::vector<int> axes;             // inner axes of the loops around it
    std::map<int, std::string> names;  // of values that it has computed
    std::string text;
    int indentation = 2;
  };
  struct Variable {
    std::string_view type;
    std::string name;
  };

  const Instruction& At(int value) const {
    return program_.instructions[static_cast<size_t>(value)];
  }
  const std::vector<int>& AxesOf(int value) const { return axes_of_[static_cast<size_t>(value)]; }
  bool Uses(int user, int value) const {
    return uses_[static_cast<size_t>(user)][static_cast<size_t>(value)];
  }
  bool IsWide(int access) const {
    return is_in_group_ && layout_.is_wide[static_cast<size_t>(access)];
  }
  std::string Text(const Size& size) const { return CSize(size, program_.symbols); }
  std::string Extent(int axis) const {
    return Text(program_.axes[static_cast<size_t>(axis)].extent);
  }
  std::string BufferOf(const Instruction& access) const {
    return CBuffer(program_.buffers[static_cast<size_t>(access.buffer)].name);
  }
  DType OperandType(const Instruction& instruction) const;
  void FindUses();

  // c_printer.cc: the kernel, values, loops.
  absl::StatusOr<std::string> Body(bool is_in_group);
  absl::StatusOr<std::string> Groups();
  std::string Kernel(const std::string& body, const std::string& groups) const;
  std::string Tail(const std::string& body, std::string_view end) const;
  size_t DepthOf(int value) const;
  void Line(Scope& scope, std::string_view line) const;
  std::string Use(int value);
  std::string AxisVariable(int axis);
  std::string AxisAt(int axis, std::string_view position) const;
  std::string_view IndexType(const Size& positions) const;
  // Prints `body` between braces behind `head`.
  void InBlock(std::string_view head, const std::function<void()>& body);
  // Opens loops over the axes inside the innermost open scope, prints `body` there, closes them.
  void InLoops(const std::vector<int>& axes, const std::function<void()>& body);
  void InSharedLoop(const std::vector<int>& axes, const std::function<void()>& body);

  // c_memory.cc: loads and stores.
  absl::Status CheckMemory(const std::vector<int>& group);
  std::string Load(int value);
  void PrintStores(const std::vector<int>& group);
  void PrintStore(int value, const std::vector<std::string>& operands);
  std::string WideType(const Instruction& access) const;
  std::string WideElement(int access) const;
  void DeclareWideTypes();
  std::string InGroups(const std::string& body) const;
  std::string FirstElement(const LinearIndex& index) const;

  // c_reductions.cc: reductions.
  std::vector<int> GroupOf(int first, size_t depth) const;
  void Reduce(int first, size_t depth);
  void Declare(int reduction);
  std::string PositionOn(const std::vector<int>& axes) const;
  void Accumulate(int reduction, const std::string& x, const std::string& position);
  std::vector<Variable> VariablesOf(int reduction) const;
  void AccumulateOther(int reduction);
  void CombineThreads(const std::vector<int>& group);
  void CombineInMemory(const std::vector<int>& group, int parts);

  const LoopProgram& program_;
  const CDialect& dialect_;
  const CExpression expression_;
  const std::vector<std::vector<int>> axes_of_;
  const ThreadLayout layout_;
  Size total_;  // positions of the outer axes
  std::string_view position_type_;
  std::vector<std::vector<bool>> uses_;
  std::vector<int> stores_;
  CDeclarations declarations_;

  // State of the body that is being printed:
  bool is_in_group_ = false;  // for one position of a group
  std::set<int> written_;     // buffers
  std::set<int> known_axes_;
  std::vector<int> roots_;   // the stores that are being printed
  std::vector<Scope> open_;  // outermost first
};

}  // namespace kiln::graph
